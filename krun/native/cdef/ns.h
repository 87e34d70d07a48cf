int kr_clone3(uint64_t flags, int exit_signal, int cgroup_fd, int *pidfd);
int kr_clone_inside(uint64_t flags, int exit_signal, int cgroup_fd, int root_fd, int pid_ns, int others,
                    int joins, const int *keep, unsigned int count, int *where);
int kr_unshare(unsigned long flags);
int kr_setns(int fd, int nstype);
int kr_sethostname(const char *name, size_t len);
int kr_setdomainname(const char *name, size_t len);
int kr_loopback_up(void);
int kr_nstype(int fd);
int kr_ns_below(int proc, const char *path);
