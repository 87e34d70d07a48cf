int kr_bpf_load_device(const void *insns, unsigned int count, char *log, unsigned int log_size);
int kr_bpf_attach_device(int cgroup, int prog);
