int kr_mount(const char *source, const char *target, const char *fstype, unsigned long flags,
             const char *data);
int kr_umount2(const char *target, int flags);
int kr_pivot_root(const char *new_root, const char *put_old);
int kr_open_tree(int dirfd, const char *path, unsigned int flags);
int kr_move_mount(int from_fd, const char *from_path, int to_fd, const char *to_path, unsigned int flags);
int kr_mount_setattr(int dirfd, const char *path, unsigned int flags, uint64_t set, uint64_t clear,
                     uint64_t propagation, int userns_fd);
int kr_fsopen(const char *fstype, unsigned int flags);
int kr_fsconfig(int fd, unsigned int cmd, const char *key, const char *value, int aux);
int kr_fsmount(int fd, unsigned int flags, unsigned int attrs);
