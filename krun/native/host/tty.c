/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-terminals (pty(7), ioctl_tty(2)). */
#include "host.h"

#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

int kr_pty_unlock(int master) {
    int locked = 0;

    return (int)KR_CALL(SYS_ioctl, master, TIOCSPTLCK, &locked);
}

/* N of /dev/pts/N. */
int kr_pty_number(int master) {
    unsigned int number = 0;
    long r = KR_CALL(SYS_ioctl, master, TIOCGPTN, &number);

    return r < 0 ? (int)r : (int)number;
}

/* The slave, opened without a path: nothing in the container can put another file in its place
 * (CVE-2025-52565). */
int kr_pty_peer(int master, int flags) { return (int)KR_CALL(SYS_ioctl, master, TIOCGPTPEER, flags); }

int kr_tty_set_controlling(int fd) { return (int)KR_CALL(SYS_ioctl, fd, TIOCSCTTY, 0); }

int kr_tty_get_size(int fd, unsigned short *rows_cols) {
    struct winsize size;
    long r = KR_CALL(SYS_ioctl, fd, TIOCGWINSZ, &size);

    if (r < 0)
        return (int)r;
    rows_cols[0] = size.ws_row;
    rows_cols[1] = size.ws_col;
    return 0;
}

int kr_tty_set_size(int fd, unsigned short rows, unsigned short cols) {
    struct winsize size = {.ws_row = rows, .ws_col = cols};

    return (int)KR_CALL(SYS_ioctl, fd, TIOCSWINSZ, &size);
}

/* Sets `fd` to raw mode; the settings before go to `saved` for kr_tty_restore. */
int kr_tty_raw(int fd, unsigned char *saved, size_t size) {
    struct termios old, raw;

    if (size < sizeof(old))
        return -EINVAL;
    if (tcgetattr(fd, &old) < 0)
        return -errno;
    memcpy(saved, &old, sizeof(old));
    raw = old;
    cfmakeraw(&raw);
    raw.c_oflag |= old.c_oflag & OPOST; /* lines of the container's end with LF alone (kr_tty_lf) */
    return (int)kr_ret(tcsetattr(fd, TCSANOW, &raw));
}

/* Lines that are written to the terminal `fd` end with LF alone, and not with CR LF (ONLCR of termios(3)). */
int kr_tty_lf(int fd) {
    struct termios t;

    if (tcgetattr(fd, &t) < 0)
        return -errno;
    t.c_oflag &= ~(tcflag_t)ONLCR;
    return (int)kr_ret(tcsetattr(fd, TCSANOW, &t));
}

int kr_tty_restore(int fd, const unsigned char *saved, size_t size) {
    struct termios old;

    if (size < sizeof(old))
        return -EINVAL;
    memcpy(&old, saved, sizeof(old));
    return (int)kr_ret(tcsetattr(fd, TCSANOW, &old));
}

int kr_isatty(int fd) {
    struct termios t;

    return tcgetattr(fd, &t) == 0;
}
