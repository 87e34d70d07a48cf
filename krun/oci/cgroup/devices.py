"""Device rules: linux.resources.devices, plus the devices that every container needs (config-linux.md, "Allowed Device List")."""

from krun.errors import KrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    #: allow, type a|b|c, major, minor (None = any), access of r, w, m.
    Rule = tuple[bool, str, int | None, int | None, str]

# runc adds these to every list of rules, because a container needs the right to make its own /dev/null.
# (type, major, minor, access); None = any.
DEFAULT_DEVICES: "tuple[tuple[str, int | None, int | None, str], ...]" = (
    ("c", None, None, "m"),
    ("b", None, None, "m"),
    ("c", 1, 3, "rwm"),  # null
    ("c", 1, 5, "rwm"),  # zero
    ("c", 1, 7, "rwm"),  # full
    ("c", 1, 8, "rwm"),  # random
    ("c", 1, 9, "rwm"),  # urandom
    ("c", 5, 0, "rwm"),  # tty
    ("c", 5, 2, "rwm"),  # ptmx
    ("c", 136, None, "rwm"),  # pts
    ("c", 10, 200, "rwm"),  # net/tun
)


def device_rules(resources: "dict[str, Any] | None") -> "list[Rule]":
    """Return the ordered rules of linux.resources.devices with runc's defaults.

    A rule without type, or with "a", and without numbers speaks of all devices, whatever its access (as in
    v1's files).
    Errors: KrunError for a type or access that is none.
    """
    # Only listed devices are allowed, whether or not the list begins with the usual "deny all" (as with runc).
    rules: list[Rule] = [(False, "a", None, None, "rwm")]
    for rule in (resources or {}).get("devices") or ():
        kind = rule.get("type") or "a"
        access = rule.get("access") or "rwm"
        if kind not in ("a", "b", "c", "u") or not set(access) <= set("rwm"):
            raise KrunError(f"device rule {rule}: type is one of a, b, c and access made of r, w, m")
        major, minor = rule.get("major"), rule.get("minor")
        rules.append(
            (
                bool(rule.get("allow")),
                "c" if kind == "u" else kind,
                None if major is None or major < 0 else major,
                None if minor is None or minor < 0 else minor,
                access,
            )
        )
    rules.extend((True, *default) for default in DEFAULT_DEVICES)
    return rules
