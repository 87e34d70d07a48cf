"""What krun's caller was given: privileges, cgroups, limits."""

from __future__ import annotations

import os
from collections.abc import Iterator

from krun.cli.health.finding import FAIL, OK, WARN, Finding, read

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
_MIN_NOFILE = 4096
_MIN_MAPS = 65530  # the kernel's default of vm.max_map_count


def privileges(_root: str) -> Iterator[Finding]:
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
                f"CAP_{name.upper()}",
                WARN,
                text,
                "give krun's caller that capability if containers ask for it",
            )
    bounded = [
        name for name in prctl.ALL_CAP_NAMES if not getattr(prctl.capbset, name) and name not in _USEFUL
    ]
    if bounded:
        text = f"not to be had in containers, bounding set: {' '.join(f'CAP_{name.upper()}' for name in bounded)}"
        yield Finding(
            "bounding set", WARN, text, "start krun with a full bounding set if containers need them"
        )
    if prctl.securebits.noroot or prctl.securebits.no_setuid_fixup:
        remedy = "start krun without SECBIT_NOROOT and SECBIT_NO_SETUID_FIXUP"
        yield Finding("secure bits", FAIL, f"secure bits {prctl.get_securebits():#x}", remedy)
    elif not missing:
        yield Finding("privileges", OK, "root's, as krun needs them")


def cgroups(_root: str) -> Iterator[Finding]:
    """The layout, the controllers, and what an ordinary user was delegated."""
    from krun.oci.cgroup.files import MOUNT, host_layout, own_paths

    layout = host_layout()
    if layout == "v2":
        have = set(read(MOUNT + "/cgroup.controllers").split())
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


def limits(_root: str) -> Iterator[Finding]:
    """Limits of this process that containers inherit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _MIN_NOFILE:
        remedy = "raise LimitNOFILE of the engine's service, or ulimit -Hn"
        yield Finding("limits", WARN, f"open files: {hard} at most", remedy)
    else:
        yield Finding("limits", OK, f"open files: {soft}, at most {hard}")
    maps = read("/proc/sys/vm/max_map_count")
    if maps.isdigit() and int(maps) < _MIN_MAPS:
        yield Finding("mappings", WARN, f"vm.max_map_count is {maps}", f"sysctl vm.max_map_count={_MIN_MAPS}")
    status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines() if ":" in line)
    # CAP_SYS_RESOURCE is bit 24: without it a hard limit above ours cannot be given to a container.
    if os.geteuid() == 0 and not int(status.get("CapEff", "0").strip(), 16) >> 24 & 1:
        remedy = "keep the engine's default ulimits within ours (podman: default_ulimits in containers.conf)"
        yield Finding("rlimits", WARN, f"no CAP_SYS_RESOURCE: rlimits above {hard} files are refused", remedy)
