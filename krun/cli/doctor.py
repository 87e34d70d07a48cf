"""krun doctor: checks everything that krun needs of a host, and prints cause and remedy, as text or JSON. Changes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import krun
from krun.cli.options import Options
from krun.errors import KrunError, UsageError, strerror

OK, WARN, FAIL = "ok", "warning", "error"

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
#: Capabilities of root: for namespaces, mounts and cgroups; the loopback device; devices and roots of other owners; ids and
#: capability sets of the payload; ending it; the root of a mount namespace (setns(2)).
_NEEDED = tuple(
    "sys_admin net_admin chown dac_override fowner mknod setuid setgid setpcap kill sys_chroot".split()
)
#: And what is lacking without others.
_USEFUL = {
    "sys_resource": "no limits above krun's own, no oom_score_adj below it",
    "sys_nice": "no real-time scheduling, no negative nice value",
}
_MIN_KERNEL = (5, 12)  # mount_setattr(2): mounts are made detached
_MIN_NOFILE = 4096
_MIN_MAPS = 65530  # the kernel's default of vm.max_map_count


class Finding:
    """One check's answer. what: the thing; level: ok, warning or error; text: what is; remedy: what to do."""

    def __init__(self, what: str, level: str, text: str, remedy: str = "") -> None:
        self.what = what
        self.level = level
        self.text = text
        self.remedy = remedy


def main(opts: Options) -> int:
    """Print the findings; exit code 1 when one is an error. Errors: UsageError for a format that is none."""
    if opts.format not in (None, "", "text", "json"):
        raise UsageError(f"invalid format option: {opts.format}, use text or json")
    found = list(examine(opts.root))
    code = 1 if any(one.level == FAIL for one in found) else 0
    if opts.format == "json":
        from krun.jsonio import dumps

        document = {
            "version": krun.__version__,
            "usable": code == 0,
            "checks": [
                {"check": one.what, "level": one.level, "text": one.text, "remedy": one.remedy}
                for one in found
            ],
        }
        sys.stdout.write(dumps(document, 2) + "\n")
        return code
    width = max(len(one.what) for one in found)
    for one in found:
        sys.stdout.write(f"{one.level:8}{one.what:{width}}  {one.text}\n")
        if one.remedy and one.level != OK:
            sys.stdout.write(f"{'':{width + 10}}-> {one.remedy}\n")
    return code


def examine(root: str) -> Iterator[Finding]:
    """Run every check. A check that fails in an unforeseen way is a warning of its own, not the end."""
    for what, check in CHECKS:
        try:
            yield from check(root)
        except (OSError, ValueError, KrunError) as error:
            yield Finding(
                what, WARN, f"could not be checked: {error}", "report this, with the output of krun doctor"
            )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _kernel(_root: str) -> Iterator[Finding]:
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
    flags = _read("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split()
    return "vmx" if "vmx" in flags else "svm" if "svm" in flags else ""


def _kvm(_root: str) -> Iterator[Finding]:
    import fcntl

    path = "/dev/kvm"
    kind = back_end()
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        flags = _read("/proc/cpuinfo").partition("flags")[2].partition("\n")[0].split()
        if isinstance(error, FileNotFoundError):
            if "vmx" in flags or "svm" in flags:
                remedy = "modprobe kvm_intel (Intel) or kvm_amd (AMD)"
            elif "hypervisor" in flags:
                remedy = (
                    "this is a virtual machine: switch nested virtualization on, on its host; or load kvm_pvm"
                )
            else:
                remedy = "switch VT-x or AMD-V on in the firmware"
        elif isinstance(error, PermissionError):
            remedy = "join its group (usually: usermod -aG kvm USER, then log in anew), or ask the cgroup's device rules"
        else:
            remedy = "load kvm_intel or kvm_amd anew"
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
        if _read(f"/sys/module/{module}/parameters/{file}") in ("N", "0"):
            yield Finding(
                "kvm", WARN, f"{module} {file}=0: shadow paging, slower", f"load {module} with {file}=1"
            )


def _build(_root: str) -> Iterator[Finding]:
    native = os.path.join(os.path.dirname(os.path.abspath(krun.__file__)), "native")
    monitor = os.path.join(native, "krun-monitor")
    remedy = "./dev setup, or pip install . anew"
    try:
        __import__("krun.native._krun")
        module = Finding("native module", OK, "krun.native._krun")
    except ImportError as error:
        module = Finding("native module", FAIL, str(error), remedy)
    if not os.access(monitor, os.X_OK):
        yield Finding("monitor", FAIL, f"{monitor} is missing or not executable", remedy)
    elif module.level == OK:  # the look at its mode needs that module
        yield from _monitor_mode(monitor)
    yield module


def _monitor_mode(path: str) -> Iterator[Finding]:
    from krun.kvm.boot import readable_by_root

    info = os.stat(path)
    if os.geteuid() == 0 and readable_by_root(info):
        # The first container mends a file of root's (kvm/boot.py); one of another owner stays as it is.
        text = f"{path} has mode {info.st_mode & 0o7777:04o} and owner {info.st_uid}: root can read it"
        remedy = f"chown root:root {path} && chmod 0115 {path} (docs/lifecycle.md); the next create does the chmod itself"
        yield Finding("monitor", WARN, text, remedy)
    else:
        yield Finding("monitor", OK, f"{path}, {info.st_size // 1024} KiB")


def _launcher(_root: str) -> Iterator[Finding]:
    path = os.path.abspath(sys.argv[0])
    try:
        with open(path, "rb") as file:
            fast = file.read(4) == b"\x7fELF"
    except OSError:
        fast = False
    if fast:
        yield Finding("launcher", OK, f"{path}, an interpreter that has started already")
    else:
        remedy = "python -m krun.native.build_launcher DIR makes DIR/krun (needs gcc and python3-dev)"
        yield Finding("launcher", WARN, f"{path}, a script: some 10 ms more for each command", remedy)


def _python(_root: str) -> Iterator[Finding]:
    from importlib.util import find_spec

    version = ".".join(map(str, sys.version_info[:3]))
    level = OK if sys.version_info >= (3, 11) else FAIL
    yield Finding("python", level, f"{sys.executable} {version}", "needs Python 3.11 or newer")
    for module, use in (
        ("click", "help and error texts"),
        ("pyseccomp", "seccomp profiles"),
        ("pyroute2", "linux.netDevices"),
        ("prctl", "check of privileges"),
        ("yaml", "/etc/krun/krun.yaml"),
    ):
        if find_spec(module) is None:
            yield Finding(
                "python", WARN, f"package {module} is missing: no {use}", "./dev setup, or pip install ."
            )


def _privileges(_root: str) -> Iterator[Finding]:
    """The capabilities that this process has and that it can pass on (capabilities(7)); root may lack some."""
    try:
        import prctl
    except ImportError as error:
        yield Finding("privileges", WARN, f"not checked: {error}", "./dev setup, or pip install .")
        return
    if os.geteuid() != 0:
        # newuidmap(1) needs these; the user namespace gives the others.
        if prctl.get_no_new_privs():
            remedy = "start krun outside of what sets no_new_privs (systemd's NoNewPrivileges=, a container)"
            yield Finding(
                "privileges", FAIL, "no_new_privs is set: newuidmap and newgidmap have no effect", remedy
            )
        else:
            yield Finding("privileges", OK, "an ordinary user's")
        return
    missing = [name for name in _NEEDED if not getattr(prctl.cap_effective, name)]
    if missing:
        yield Finding(
            "privileges",
            FAIL,
            f"root without {' '.join(f'CAP_{name.upper()}' for name in missing)}",
            "run krun where root has its capabilities, or as an ordinary user (rootless)",
        )
    for name, use in _USEFUL.items():
        if not getattr(prctl.cap_effective, name):
            text = f"root without CAP_{name.upper()}: {use}"
            yield Finding(
                "privileges", WARN, text, "give krun's caller that capability if containers ask for it"
            )
    bounded = [
        name for name in prctl.ALL_CAP_NAMES if not getattr(prctl.capbset, name) and name not in _USEFUL
    ]
    if bounded:
        text = f"not to be had in containers, bounding set: {' '.join(f'CAP_{name.upper()}' for name in bounded)}"
        yield Finding("privileges", WARN, text, "start krun with a full bounding set if containers need them")
    if prctl.securebits.noroot or prctl.securebits.no_setuid_fixup:
        remedy = "start krun without SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP"
        yield Finding("privileges", FAIL, f"secure bits {prctl.get_securebits():#x}", remedy)
    elif not missing:
        yield Finding("privileges", OK, "root's, as krun needs them")


def _cgroups(_root: str) -> Iterator[Finding]:
    from krun.oci.cgroup.files import MOUNT, host_layout, own_paths

    layout = host_layout()
    if layout == "v2":
        have = set(_read(MOUNT + "/cgroup.controllers").split())
        wanted = {"cpu", "cpuset", "io", "memory", "pids"}
    else:
        from krun.oci.cgroup.v1 import mounts

        have = set(mounts())
        wanted = {"cpu", "cpuset", "blkio", "memory", "pids", "devices", "freezer"}
        if not have:
            remedy = "mount cgroup2 on /sys/fs/cgroup, or boot with systemd"
            yield Finding("cgroups", FAIL, "no controllers under /sys/fs/cgroup", remedy)
            return
    yield Finding("cgroups", OK, f"{layout}: {' '.join(sorted(have))}")
    missing = sorted(wanted - have)
    if missing:
        remedy = "their limits are refused; see cgroup_disable= on the kernel's command line"
        yield Finding("cgroups", WARN, f"controllers missing: {' '.join(missing)}", remedy)
    if os.geteuid() != 0:
        own = MOUNT + own_paths().get("", "/")
        if layout != "v2" or not os.access(own, os.W_OK):
            remedy = "log in through systemd with Delegate=yes on user@.service (cgroup v2)"
            yield Finding("cgroups", WARN, "no cgroup of this user's: limits are not available", remedy)
    if os.path.isdir("/run/systemd/system"):
        yield Finding("systemd", OK, "running: --systemd-cgroup can be used")
    else:
        yield Finding("systemd", OK, "not running: use the cgroupfs manager")


def _user_namespaces(_root: str) -> Iterator[Finding]:
    import pwd
    import shutil

    number = _read("/proc/sys/user/max_user_namespaces")
    if not os.path.exists("/proc/self/ns/user") or number == "0":
        remedy = "sysctl user.max_user_namespaces=15000"
        yield Finding("user namespaces", WARN, "not available: no uidMappings, no rootless", remedy)
        return
    text = f"up to {number or 'any number'}"
    if _read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        remedy = "sysctl kernel.unprivileged_userns_clone=1"
        yield Finding("user namespaces", WARN, "for root only: no rootless containers", remedy)
    elif _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for krun"
        yield Finding("user namespaces", WARN, "restricted by AppArmor: no rootless containers", remedy)
    else:
        yield Finding("user namespaces", OK, text)
    if os.geteuid() == 0:
        return
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    for tool in ("newuidmap", "newgidmap"):
        if shutil.which(tool, path=path) is None:
            yield Finding("rootless", WARN, f"{tool} is missing", "install the package uidmap (shadow-utils)")
    user = pwd.getpwuid(os.geteuid()).pw_name
    for file in ("/etc/subuid", "/etc/subgid"):
        if not any(line.split(":")[0] in (user, str(os.geteuid())) for line in _read(file).splitlines()):
            remedy = f"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
            yield Finding("rootless", WARN, f"{file} has no range for {user}", remedy)


def _seccomp(_root: str) -> Iterator[Finding]:
    actions = _read("/proc/sys/kernel/seccomp/actions_avail").split()
    if not actions:
        remedy = "use a kernel with CONFIG_SECCOMP_FILTER: the monitor confines itself with it"
        yield Finding("seccomp", FAIL, "the kernel has no seccomp filters", remedy)
        return
    yield Finding("seccomp", OK, f"kernel: {' '.join(actions)}")
    try:
        from importlib import import_module

        # Only to see that it loads: its users are oci/seccomp.py.
        version = getattr(import_module("pyseccomp"), "get_api", None)
        yield Finding("seccomp", OK, f"libseccomp, API level {version()}" if version else "libseccomp")
    except (ImportError, RuntimeError, OSError) as error:
        remedy = "install libseccomp2 and the package pyseccomp"
        yield Finding("seccomp", WARN, f"profiles cannot be compiled: {error}", remedy)


def _limits(_root: str) -> Iterator[Finding]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _MIN_NOFILE:
        remedy = "raise LimitNOFILE of the engine's service, or ulimit -Hn"
        yield Finding("limits", WARN, f"open files: {hard} at most", remedy)
    else:
        yield Finding("limits", OK, f"open files: {soft}, at most {hard}")
    maps = _read("/proc/sys/vm/max_map_count")
    if maps.isdigit() and int(maps) < _MIN_MAPS:
        yield Finding("limits", WARN, f"vm.max_map_count is {maps}", f"sysctl vm.max_map_count={_MIN_MAPS}")
    status = dict(line.split(":", 1) for line in _read("/proc/self/status").splitlines() if ":" in line)
    # CAP_SYS_RESOURCE is bit 24: without it a hard limit above ours cannot be given to a container.
    if os.geteuid() == 0 and not int(status.get("CapEff", "0").strip(), 16) >> 24 & 1:
        remedy = "keep the engine's default ulimits within ours (podman: default_ulimits in containers.conf)"
        yield Finding("limits", WARN, f"no CAP_SYS_RESOURCE: rlimits above {hard} files are refused", remedy)


def _configuration(_root: str) -> Iterator[Finding]:
    from krun import settings

    if not os.path.lexists(settings.PATH):
        yield Finding("configuration", OK, f"no {settings.PATH}: the defaults")
        return
    try:
        found = settings.load()
    except KrunError as error:
        remedy = "krun refuses every command of a container until the file is mended or removed"
        yield Finding("configuration", FAIL, str(error), remedy)
        return
    values = ", ".join(f"{key}={getattr(found, attribute)}" for key, _, _, attribute in settings.KEYS)
    yield Finding("configuration", OK, f"{settings.PATH}: {values}")


def _state(root: str) -> Iterator[Finding]:
    place = root
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if os.access(place, os.W_OK):
        yield Finding("state", OK, f"{root} {'is there' if place == root else 'can be made'}")
    else:
        yield Finding(
            "state", FAIL, f"{root} cannot be written", "be root, or set XDG_RUNTIME_DIR, or use --root"
        )
    space = os.statvfs(place)
    if space.f_bavail * space.f_frsize < 16 << 20:
        yield Finding(
            "state", WARN, f"{place} has less than 16 MiB left", "make room: state cannot be written"
        )


def _engines(_root: str) -> Iterator[Finding]:
    import shutil

    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    any_there = False
    for engine, program, files in (
        ("podman", "podman", ("/etc/containers/containers.conf", "/etc/containers/containers.conf.d")),
        ("docker", "dockerd", ("/etc/docker/daemon.json",)),
        ("containerd", "containerd", ("/etc/containerd/config.toml",)),
        ("crio", "crio", ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")),
    ):
        found = shutil.which(program, path=path)
        if not found:
            continue
        any_there = True
        known = any("krun" in text for file in files for text in _texts(file))
        text = f"{_version(found)}; krun is {'' if known else 'not '}registered"
        yield Finding(engine, OK, text if known else f"{text} (krun install {engine})")
    if not any_there:
        yield Finding("engines", OK, "none found; krun can be used by hand")


def _texts(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            yield _read(os.path.join(path, name))
    else:
        yield _read(path)


def _version(program: str) -> str:
    import subprocess

    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program}: {error}"
    return done.stdout.strip().split("\n")[0] or program


CHECKS: tuple[tuple[str, Callable[[str], Iterator[Finding]]], ...] = (
    ("kernel", _kernel),
    ("kvm", _kvm),
    ("build", _build),
    ("launcher", _launcher),
    ("python", _python),
    ("privileges", _privileges),
    ("cgroups", _cgroups),
    ("user namespaces", _user_namespaces),
    ("seccomp", _seccomp),
    ("limits", _limits),
    ("configuration", _configuration),
    ("state", _state),
    ("engines", _engines),
)
