"""What to do about a /dev/kvm that cannot be opened. Runs in the parent, never in the child."""

import os
from errno import EACCES, ENOENT, EPERM

KVM_PATH = "/dev/kvm"


def kvm_remedy(number: int) -> str:
    """Returns what to do about a /dev/kvm that cannot be opened, for krun's own errors and for doctor. Argument: number, the errno."""
    if number == ENOENT:
        flags = _cpu_flags()
        if "vmx" in flags or "svm" in flags:
            return "modprobe kvm_intel (Intel) or kvm_amd (AMD)"
        if "hypervisor" in flags:
            return "this is a virtual machine: switch nested virtualization on, on its host; or load kvm_pvm"
        return "switch VT-x or AMD-V on in the firmware"
    if number in (EACCES, EPERM):
        return _rights()
    return "load kvm_intel or kvm_amd anew"


def _cpu_flags() -> "list[str]":
    with open("/proc/cpuinfo") as file:
        return file.read().partition("flags")[2].partition("\n")[0].split()


def _rights() -> str:
    """Returns why this process may not open the node, which is there."""
    import grp

    found = os.stat(KVM_PATH)
    try:
        group = grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        group = str(found.st_gid)
    owner = f"its mode is {found.st_mode & 0o777:o}, its group {group}"
    mine = os.geteuid() == found.st_uid, found.st_gid in (os.getegid(), *os.getgroups())
    bits = found.st_mode >> (6 if mine[0] else 3 if mine[1] else 0) & 6
    if bits == 6 or os.geteuid() == 0:
        return f"{owner}: these allow it, so ask the device rules of krun's cgroup, or the container that krun runs in"
    if found.st_mode & 0o60 == 0o60:
        return f"{owner}: be root, or join the group (usermod -aG {group} USER, then log in anew)"
    return f"{owner}: be root, or let the group open it (chmod 660 {KVM_PATH}; a udev rule keeps that)"
