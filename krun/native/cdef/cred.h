int kr_capset(uint64_t effective, uint64_t permitted, uint64_t inheritable);
int kr_capget(uint64_t *sets);
int kr_prctl(int op, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int kr_setresuid(unsigned int real, unsigned int effective, unsigned int saved);
int kr_setresgid(unsigned int real, unsigned int effective, unsigned int saved);
int kr_setfsuid(unsigned int uid);
int kr_setgroups(size_t count, const unsigned int *groups);
int kr_prlimit(int pid, int resource, const uint64_t *new_limit, uint64_t *old_limit);
int kr_sched_setattr(int pid, unsigned int policy, uint64_t flags, int nice, unsigned int priority,
                     uint64_t runtime, uint64_t deadline, uint64_t period);
int kr_sched_setaffinity(int pid, size_t size, const unsigned char *mask);
int kr_ioprio_set(int which, int who, int value);
int kr_personality(unsigned long persona);
int kr_set_mempolicy(int mode, const unsigned long *nodes, unsigned long bits);
long kr_join_keyring(const char *name);
int kr_keyring_setperm(int key, unsigned int perm);
