// A pseudo-terminal: echo, canonical and raw mode, SIGWINCH, hang-up: pty(7), termios(3).
#include "guest.h"
#include <sys/ioctl.h>
#include <termios.h>
static volatile int winch;
static void h(int s) { winch++; }
static void print(const char *what, const char *b, ssize_t n) {
    char t[800] = "";
    for (const char *p = b; p < b + (n > 0 ? n : 0); p++)
        sprintf(t + strlen(t), *p < 32 ? "\\%o" : "%c", *p);
    say("%s: %zd %s", what, n, t);
}
static void show(const char *what, int fd) {
    char b[100];
    print(what, b, read(fd, b, sizeof b));
}
static void show_line(const char *what, int fd) { // what a terminal puts out may come in pieces
    char b[100];
    ssize_t n = 0, got;
    do {
        got = read(fd, b + n, sizeof b - (size_t)n);
        n += got > 0 ? got : 0;
    } while (got > 0 && b[n - 1] != '\n');
    print(what, b, n);
}
int main(int argc, char **argv) {
    int m = MUST(posix_openpt(O_RDWR | O_NOCTTY));
    MUST(grantpt(m)), MUST(unlockpt(m));
    char *name = ptsname(m);
    reap("session", CHILD({
             setsid();
             int t = MUST(open(name, O_RDWR)), pid;
             struct termios s;
             EXPECT(isatty(t) && isatty(m) && !strcmp(ttyname(t), name));
             write(m, "line\n", 5), show("slave", t), show_line("echo", m);
             write(t, "out\n", 4), show_line("master", m);
             write(m, "ab\177c\004", 5), show("edited", t);
             tcgetattr(t, &s), cfmakeraw(&s), tcsetattr(t, TCSANOW, &s);
             write(m, "\003x\r", 3), show("raw", t);
             struct winsize w = {24, 80, 0, 0}, v;
             on(SIGWINCH, h, SA_RESTART), ioctl(m, TIOCSWINSZ, &w), ioctl(t, TIOCGWINSZ, &v),
                 say("size %d %d, SIGWINCH %d", v.ws_row, v.ws_col, winch);
             TRY(ioctl(t, TIOCGPGRP, &pid)), EXPECT(pid == getpid());
             TRY(ioctl(t, TIOCNOTTY)), TRY(open("/dev/tty", O_RDWR)), TRY(ioctl(t, TIOCSCTTY, 0)),
                 TRY(open("/dev/tty", O_RDWR));
             signal(SIGHUP, SIG_IGN), close(m);
             show("hung up", t), TRY(write(t, "x", 1));
         }));
    return wrong;
}
