"""The monitor's executable, by a descriptor, of a file that whoever executes it cannot read.

The kernel makes a process undumpable from its first instant if the process may not read the program that it executes (would_dump() in
fs/exec.c). So nobody looks into a monitor between an execve and the monitor's first system call. Three conditions:

* No class of the file's mode has the right to read (MONITOR_MODE). CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH read nevertheless;
  krun (oci/init.py) and the monitor (native/process/exec.c) put them down for the exec.
* The file's owner has an id in the user namespace of the container. Otherwise the kernel gives the process to the closest namespace
  above that knows the owner, and /proc/PID of the process would no longer belong to the container's root. So a container in another
  user namespace than krun gets a sealed copy in memory, which belongs to whoever makes it. An id-mapped clone of the file's mount would
  do, too; but with it the host's file would belong to the container's root, and nothing but the clone's being read-only would protect
  it: a monitor that was taken over could take that away with CAP_SYS_ADMIN (mount_setattr(2)).
* What must read it, for those copies, has another file with the same program, READABLE_PATH.

`open_monitor` and `open_readable` run in the parent, `own` in the child.
"""

import os
from errno import EACCES, ENOENT

from krun.errors import KrunError, SysError
from krun.mountio import (
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
    OPEN_TREE_CLONE,
    mount_setattr,
    open_tree,
)
from krun.sysio import AT_FDCWD, sealed_copy

MONITOR_PATH = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/native/krun-monitor"
READABLE_PATH = MONITOR_PATH + ".readable"
# As native/build_native.py makes it for root.
MONITOR_MODE = 0o111
_READ = 0o444


def open_monitor() -> int:
    """Opens the monitor for execution so that nobody can write to it through /proc (CVE-2019-5736).

    A read-only clone of the file's mount shares the page cache among all containers. The descriptor is that of a sealed copy in
    memory if no clone can be made (without CAP_SYS_ADMIN over this mount namespace), if the file is not root's of our user
    namespace, and if its mode cannot be mended. Returns the descriptor. Raises KrunError.
    """
    fd = -1
    try:
        fd = open_tree(AT_FDCWD, MONITOR_PATH, OPEN_TREE_CLONE)
        if mend_mode(fd):
            mount_setattr(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, name=MONITOR_PATH)
            return fd
    except SysError as e:
        if e.errno == ENOENT:
            raise _missing(MONITOR_PATH) from None
    if fd >= 0:
        os.close(fd)
    source = open_readable()
    try:
        return _copy(source)
    finally:
        os.close(source)


def open_readable() -> int:
    """Opens the file that copies are made of. Returns the descriptor. Raises KrunError."""
    try:
        return os.open(READABLE_PATH, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as e:
        if e.errno == ENOENT:
            raise _missing(READABLE_PATH) from None
        raise SysError("open monitor", READABLE_PATH, e.errno or 0) from None


def _missing(path: str) -> KrunError:
    return KrunError(f"the monitor {path} does not exist; build it with python3 -m krun.native.build_native")


def _copy(source: int) -> int:
    """Returns a sealed copy in memory, of our file system ids, that nobody may read."""
    return sealed_copy(source, "krun-monitor")


def own(exe: int, readable: int) -> int:
    """Returns the image that belongs to us, who have just become root of the container's user namespace: `exe`, or a copy of
    `readable`. Closes the other descriptors. Raises SysError.

    Where no memory may be executed (vm.memfd_noexec of our pid namespace is 2; root of the container may be able to set it) it is
    `exe` nevertheless: nobody may read it, but /proc/PID belongs to root of a namespace above.
    """
    info = os.fstat(exe)
    if (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid()):
        try:
            copy = _copy(readable)
        except SysError as e:
            if e.errno != EACCES:
                raise
        else:
            os.close(exe)
            exe = copy
    os.close(readable)
    return exe


def can_be_read(info: os.stat_result) -> bool:
    """Tells whether somebody without CAP_DAC_OVERRIDE may read a file: whoever executes it is dumpable until its first call."""
    return bool(info.st_mode & _READ)


def mend_mode(fd: int) -> bool:
    """Takes all rights to read the monitor's file away (pip installs every program with 0755).

    Argument: fd, O_PATH, of the monitor on a mount that can be written. Returns whether the file is root's and nobody may read it
    now; `krun doctor` names one that stays as it is.
    """
    info = os.fstat(fd)
    if info.st_uid != 0 or os.geteuid() != 0:
        return False
    if not can_be_read(info):
        return True
    try:
        os.chmod(f"/proc/self/fd/{fd}", MONITOR_MODE)
    except OSError:
        return False
    return True
