"""sd_notify(3): a service manager's end, and a program that sends to NOTIFY_SOCKET."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import threading
from pathlib import Path

#: Sends one datagram to NOTIFY_SOCKET: the busybox of the bundle has no tool for that.
SENDER = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    if (!name)
        return puts("no NOTIFY_SOCKET"), 0;
    printf("%s\n", name);
    strcpy(to.sun_path, name);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "sleep")) {
            sleep(1000);
            continue;
        }
        if (!strcmp(argv[i], "barrier")) {
            int p[2];
            char data[] = "BARRIER=1", space[CMSG_SPACE(sizeof(int))] = {0}, c;
            struct iovec v = {data, sizeof data - 1};
            struct msghdr m = {&to, sizeof to, &v, 1, space, sizeof space, 0};
            pipe(p);
            struct cmsghdr *h = CMSG_FIRSTHDR(&m);
            h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(h), &p[1], sizeof(int));
            int r = sendmsg(fd, &m, 0);
            close(p[1]);
            printf("barrier %d\n", r < 0 ? -errno : (int)read(p[0], &c, 1));
        } else {
            int r = sendto(fd, argv[i], strlen(argv[i]), 0, (struct sockaddr *)&to, sizeof to);
            printf("sent %d\n", r < 0 ? -errno : r);
        }
        fflush(stdout);
    }
    return 0;
}
"""


def build_linger(path: Path) -> Path:
    """Compile linger.c, static: descriptors whose close waits, for a socket that krun reads."""
    source = Path(__file__).with_name("linger.c")
    subprocess.run(["gcc", "-static", "-w", "-o", path, source], check=True)
    return path


def build_sender(path: Path) -> Path:
    """Compile it, static: it runs in any root."""
    subprocess.run(["gcc", "-static", "-x", "c", "-w", "-o", path, "-"], input=SENDER, text=True, check=True)
    return path


_numbers = itertools.count()


def unused_name() -> str:
    """A name for a socket that nothing else has: abstract names are those of the network namespace, so that the pid, which is of the
    pid namespace, is not enough; and the kernel frees one only when the last copy of its descriptor is closed."""
    return f"/tmp/krun-notify-{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"


class Manager:
    """A service manager's end: reads everything and closes the descriptors of BARRIER=1, which answers it."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.messages: list[bytes] = []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 4096, 8)
            if data == b"end":
                return
            self.messages.append(data.strip())
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.connect(self.socket.getsockname())
        client.send(b"end")
        self.thread.join()
        client.close()
        self.socket.close()
