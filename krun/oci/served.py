"""Calls by which a monitor serves others, and which it makes only then: `served` of native/filter/profile.c, by number.

The relay of seccomp notifications lets them pass while such a call is served (oci/relay.py). tests/unit/test_relay.py compares.
"""

# fmt: off
SERVED_BY: "dict[int, tuple[int, ...]]" = {
    2: (161,),  # open: chroot
    31: (30,),  # shmctl: shmat
    54: (41,),  # setsockopt: socket
    67: (30,),  # shmdt: shmat
    150: (151, 152),  # munlock: mlockall, munlockall
    188: (189,),  # setxattr: lsetxattr
    191: (192,),  # getxattr: lgetxattr
    194: (195,),  # listxattr: llistxattr
    197: (198,),  # removexattr: lremovexattr
    207: (206,),  # io_destroy: io_setup
    218: (56, 435, 59, 322, 60, 57, 58),  # set_tid_address: clone, clone3, execve, execveat, exit, fork, vfork
    258: (83,),  # mkdirat: mkdir
    259: (133,),  # mknodat: mknod
    260: (92, 94),  # fchownat: chown, lchown
    261: (132, 235),  # futimesat: utime, utimes
    262: (6, 332),  # newfstatat: lstat, statx
    265: (86,),  # linkat: link
    266: (88,),  # symlinkat: symlink
    268: (90, 452),  # fchmodat: chmod, fchmodat2
    289: (282,),  # signalfd4: signalfd
    316: (82, 264),  # renameat2: rename, renameat
    424: (438, 440),  # pidfd_send_signal: pidfd_getfd, process_madvise
    444: (49,),  # landlock_create_ruleset: bind
    445: (49, 446),  # landlock_add_rule: bind, landlock_restrict_self
    446: (49,),  # landlock_restrict_self: bind
    463: (188, 189),  # setxattrat: setxattr, lsetxattr
    464: (191, 192),  # getxattrat: getxattr, lgetxattr
    465: (194, 195),  # listxattrat: listxattr, llistxattr
    466: (197, 198),  # removexattrat: removexattr, lremovexattr
}
# fmt: on
