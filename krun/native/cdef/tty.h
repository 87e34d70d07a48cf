int kr_pty_unlock(int master);
int kr_pty_number(int master);
int kr_pty_peer(int master, int flags);
int kr_tty_set_controlling(int fd);
int kr_tty_get_size(int fd, unsigned short *rows_cols);
int kr_tty_set_size(int fd, unsigned short rows, unsigned short cols);
int kr_tty_raw(int fd, unsigned char *saved, size_t size);
int kr_tty_restore(int fd, const unsigned char *saved, size_t size);
int kr_isatty(int fd);
