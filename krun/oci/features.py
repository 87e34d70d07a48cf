"""krun features: prints the features of this build (features.md, features-linux.md of runtime-spec 1.3).

The output describes the build, not the host. Every list comes from the table that the code itself reads.
containerd, CRI-O and dockerd call this verb at start-up.
"""

import sys

import krun
from krun.jsonio import dumps
from krun.oci import cred, fields, hooks, mountopts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from krun.cli.options import Options

# The architectures whose names seccomp profiles may hold; payloads are x86-64.
_ARCHS = ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32")


def main(opts: "Options") -> int:
    """Print the features as JSON, indented by 4 as runc does."""
    sys.stdout.write(dumps(features(), 4) + "\n")
    return 0


def _served(pointer: str) -> bool:
    return fields.FIELDS[pointer].level == fields.SERVED


def features() -> "dict[str, Any]":
    """Return the Features object."""
    notify = _served("/linux/seccomp/listenerPath")
    actions = [name for name in fields.SECCOMP_ACTIONS if notify or name != "SCMP_ACT_NOTIFY"]
    flags = list(fields.SECCOMP_FLAGS)
    return {
        "ociVersionMin": krun.SPEC_VERSION_MIN,
        "ociVersionMax": krun.SPEC_VERSION,
        "hooks": list(hooks.KINDS),
        "mountOptions": mountopts.option_names(),
        "linux": {
            "namespaces": sorted(fields.NAMESPACE_TYPES),
            "capabilities": list(cred.CAPABILITIES),
            "cgroup": {
                "v1": True,
                "v2": True,
                "systemd": True,
                "systemdUser": True,
                "rdma": _served("/linux/resources/rdma"),
            },
            "seccomp": {
                "enabled": _served("/linux/seccomp"),
                "actions": sorted(actions),
                "operators": sorted(fields.SECCOMP_OPERATORS),
                "archs": sorted(_ARCHS),
                "knownFlags": flags,
                # The filter is evaluated by the monitor: flags of seccomp(2) have nothing to act on, and are
                # taken.
                "supportedFlags": flags,
            },
            "apparmor": {"enabled": _served("/process/apparmorProfile")},
            "selinux": {"enabled": _served("/process/selinuxLabel")},
            "intelRdt": {
                "enabled": _served("/linux/intelRdt"),
                "schemata": _served("/linux/intelRdt/schemata"),
                "monitoring": _served("/linux/intelRdt/enableMonitoring"),
            },
            "memoryPolicy": {"modes": list(fields.MPOL_MODES), "flags": list(fields.MPOL_FLAGS)},
            "mountExtensions": {"idmap": {"enabled": "idmap" in mountopts.OWN}},
            "netDevices": {"enabled": _served("/linux/netDevices")},
        },
        "annotations": {
            "krun.version": krun.__version__,
            "krun.checkpoint.enabled": "false",
        },
        # A caller that lets its users set annotations should reserve these: properties of the systemd unit (as
        # with runc), and krun's own name space.
        "potentiallyUnsafeConfigAnnotations": ["krun.", "org.systemd.property."],
    }
