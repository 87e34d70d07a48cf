"""What the host's kernel offers: its version, KVM, user namespaces, seccomp."""

from __future__ import annotations

import os
from collections.abc import Iterator

from krun.cli.health.finding import FAIL, OK, PATH, WARN, Finding, read
from krun.errors import KrunError, strerror
from krun.kvm.remedy import kvm_remedy

_KVM_API_VERSION = 12  # kvm.rst 4.1: frozen since 2.6.22
_KVM_GET_API_VERSION = 0xAE00
_KVM_CREATE_VM = 0xAE01
_KVM_CHECK_EXTENSION = 0xAE03
#: KVM capabilities that the monitor needs (linux/kvm.h): number, name.
_CAPABILITIES = (
    (3, "USER_MEMORY"),
    (7, "EXT_CPUID"),
    (74, "SYNC_REGS"),
    (136, "IMMEDIATE_EXIT"),
    (56, "XCRS"),
)
_MAX_VCPUS = 66
_MIN_KERNEL = (5, 12)  # mount_setattr(2): mounts are made detached


def kernel(_root: str) -> Iterator[Finding]:
    """The version, and the namespaces that every container needs."""
    info = os.uname()
    version = tuple(int(part) for part in info.release.split("-")[0].split(".")[:2] if part.isdigit())
    text = f"Linux {info.release} {info.machine}"
    if info.machine != "x86_64":
        yield Finding("kernel", FAIL, text, "krun runs on x86-64 only")
    elif version < _MIN_KERNEL:
        need = ".".join(map(str, _MIN_KERNEL))
        yield Finding(
            "kernel", FAIL, text, f"needs Linux {need} or newer (mount_setattr), 5.14 for cgroup.kill"
        )
    else:
        yield Finding("kernel", OK, text)
    for name, words in (
        ("pid", "PID_NS"),
        ("net", "NET_NS"),
        ("ipc", "IPC_NS"),
        ("uts", "UTS_NS"),
        ("mnt", ""),
    ):
        if not os.path.exists(f"/proc/self/ns/{name}"):
            yield Finding("namespaces", FAIL, f"no {name} namespaces", f"use a kernel with CONFIG_{words}")


def back_end() -> str:
    """Return which KVM this host has: vmx, svm, pvm, or "" when it cannot be told."""
    for module, name in (("kvm_intel", "vmx"), ("kvm_amd", "svm"), ("kvm_pvm", "pvm")):
        if os.path.isdir(f"/sys/module/{module}"):
            return name
    flags = read("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split()
    return "vmx" if "vmx" in flags else "svm" if "svm" in flags else ""


def kvm(_root: str) -> Iterator[Finding]:
    """/dev/kvm: whether it can be opened, has what the monitor needs, and makes a VM."""
    import fcntl

    path = "/dev/kvm"
    kind = back_end()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        remedy = kvm_remedy(error.errno or 0)
        yield Finding("kvm", FAIL, f"{path}: {strerror(error.errno or 0)}", remedy)
        return
    try:
        try:
            version = fcntl.ioctl(fd, _KVM_GET_API_VERSION, 0)
        except OSError as error:
            text = f"{path}: is not KVM: {strerror(error.errno or 0)}"
            yield Finding(
                "kvm",
                FAIL,
                text,
                "make the node anew: rm /dev/kvm; mknod /dev/kvm c 10 232; chmod 660 /dev/kvm",
            )
            return
        if version != _KVM_API_VERSION:
            yield Finding("kvm", FAIL, f"{path}: API version {version}", f"needs version {_KVM_API_VERSION}")
            return
        missing = [
            name for number, name in _CAPABILITIES if fcntl.ioctl(fd, _KVM_CHECK_EXTENSION, number) <= 0
        ]
        vcpus = fcntl.ioctl(fd, _KVM_CHECK_EXTENSION, _MAX_VCPUS)
        if missing:
            yield Finding(
                "kvm", FAIL, f"{path}: lacks KVM_CAP_{', KVM_CAP_'.join(missing)}", "use a newer kernel"
            )
        try:
            os.close(fcntl.ioctl(fd, _KVM_CREATE_VM, 0))
        except OSError as error:
            text = f"{path}: KVM_CREATE_VM: {strerror(error.errno or 0)}"
            yield Finding(
                "kvm", FAIL, text, "another hypervisor may hold the CPU (VirtualBox, VMware): stop it"
            )
            return
    finally:
        os.close(fd)
    names = {
        "vmx": "Intel VT-x",
        "svm": "AMD-V",
        "pvm": "PVM, in software (shadow paging)",
        "": "of unknown kind",
    }
    if not missing:
        yield Finding("kvm", OK, f"{path}: {names[kind]}, up to {vcpus} vCPUs a machine")
    for module, file in (("kvm_intel", "ept"), ("kvm_amd", "npt")):
        if read(f"/sys/module/{module}/parameters/{file}") in ("N", "0"):
            yield Finding(
                "kvm", WARN, f"{module} {file}=0: shadow paging, slower", f"load {module} with {file}=1"
            )


def exits(_root: str) -> Iterator[Finding]:
    """What a system call costs, and what `calls.local: auto` makes of it."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return
    try:
        from krun.kvm import host, measure
    except (ImportError, KrunError):
        return  # the compiled module is missing: installation.build
    known = host.Known()
    try:
        known.exit_ns, known.own_ns = measure.exits()
    except (OSError, ValueError) as error:
        text = f"what a system call costs could not be measured: {error}; calls.local: auto means off"
        yield Finding(
            "calls", WARN, text, "./dev setup, or pip install . anew, if the other findings are well"
        )
        return
    text = f"a system call that leaves the VM takes {known.exit_ns / 1000:.1f} us"
    if known.own_ns:
        text += f", one that is completed in it {known.own_ns / 1000:.1f} us"
    else:
        text += ", and none can be completed in it"
    yield Finding("calls", OK, f"{text}: calls.local: auto means {'on' if known.pays() else 'off'}")


def worker_threads(_root: str) -> Iterator[Finding]:
    """KVM's worker thread for each VM, which splits huge pages (nx_huge_pages, kernel-parameters.txt)."""
    value = read("/sys/module/kvm/parameters/nx_huge_pages")
    if value in ("", "never"):
        return
    bug = "iTLB multihit (CVE-2018-12207)"
    text = f"nx_huge_pages={value}: KVM starts a worker thread for each process of a container"
    if read("/sys/devices/system/cpu/vulnerabilities/itlb_multihit") == "Not affected":
        text += (
            ", which counts in its limit of pids; the kernel parameter kvm.nx_huge_pages=never saves it, and 50 to 100 us of a"
            " fork (at once, while no VM runs: echo never >/sys/module/kvm/parameters/nx_huge_pages); safe on this CPU only,"
            f" which does not have {bug}"
        )
    else:
        text += f"; keep it: without it a payload can halt this host by {bug}"
    yield Finding("kvm workers", OK, text)


def statistics(_root: str) -> Iterator[Finding]:
    """KVM's directory in debugfs for each VM and each vCPU (kvm_create_vm_debugfs() in the kernel)."""
    if "debugfs" not in read("/proc/filesystems").split():
        return
    yield Finding(
        "kvm statistics",
        OK,
        "KVM keeps a directory in debugfs for each process of a container; the kernel parameter debugfs=off saves it, 60 KiB a"
        " process and 100 to 200 us of a fork, but takes debugfs away from kvm_stat and all other tools",
    )


def user_namespaces(_root: str) -> Iterator[Finding]:
    """User namespaces; for an ordinary user also what rootless containers need."""
    import pwd
    import shutil

    number = read("/proc/sys/user/max_user_namespaces")
    if not os.path.exists("/proc/self/ns/user") or number == "0":
        remedy = "sysctl user.max_user_namespaces=15000"
        yield Finding("user namespaces", WARN, "not available: no uidMappings, no rootless", remedy)
        return
    text = f"up to {number or 'any number'}"
    if read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        remedy = "sysctl kernel.unprivileged_userns_clone=1"
        yield Finding("user namespaces", WARN, "for root only: no rootless containers", remedy)
    elif read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for krun"
        yield Finding("user namespaces", WARN, "restricted by AppArmor: no rootless containers", remedy)
    else:
        yield Finding("user namespaces", OK, text)
    if os.geteuid() == 0:
        return
    for tool in ("newuidmap", "newgidmap"):
        if shutil.which(tool, path=PATH) is None:
            yield Finding("rootless", WARN, f"{tool} is missing", "install the package uidmap (shadow-utils)")
    user = pwd.getpwuid(os.geteuid()).pw_name
    for file in ("/etc/subuid", "/etc/subgid"):
        if not any(line.split(":")[0] in (user, str(os.geteuid())) for line in read(file).splitlines()):
            remedy = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
            yield Finding("rootless", WARN, f"{file} has no range for {user}", remedy)


def seccomp(_root: str) -> Iterator[Finding]:
    """Filters in the kernel, and libseccomp for profiles."""
    actions = read("/proc/sys/kernel/seccomp/actions_avail").split()
    if not actions:
        remedy = "use a kernel with CONFIG_SECCOMP_FILTER: the monitor confines itself with it"
        yield Finding("seccomp", FAIL, "the kernel has no seccomp filters", remedy)
        return
    yield Finding("seccomp", OK, f"kernel: {' '.join(actions)}")
    try:
        from importlib import import_module

        # Only to see that it loads: its users are oci/seccomp.py.
        version = getattr(import_module("pyseccomp"), "get_api", None)
        yield Finding("libseccomp", OK, f"libseccomp, API level {version()}" if version else "libseccomp")
    except (ImportError, RuntimeError, OSError) as error:
        remedy = "install libseccomp2 and the package pyseccomp"
        yield Finding("libseccomp", WARN, f"profiles cannot be compiled: {error}", remedy)
