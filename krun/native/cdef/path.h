int kr_openat2(int dirfd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);
int kr_faccess(int fd, int mode);
int kr_mknodat(int dirfd, const char *name, unsigned int mode, unsigned int major, unsigned int minor);
int kr_fstype(int fd, uint64_t *magic);
int kr_mount_id(int fd, uint64_t *number);
int kr_memfd_create(const char *name, unsigned int flags);
int kr_seal(int fd, unsigned int seals);
int kr_copy_file(int from_fd, int to_fd);
