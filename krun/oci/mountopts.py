"""Options of mounts: THE table of those that krun knows, and their sorting by what they act on. Pure."""

from krun.mountio import (
    MOUNT_ATTR_ATIME,
    MOUNT_ATTR_NOATIME,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NODIRATIME,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_NOSYMFOLLOW,
    MOUNT_ATTR_RDONLY,
    MOUNT_ATTR_STRICTATIME,
    MS_PRIVATE,
    MS_REC,
    MS_SHARED,
    MS_SLAVE,
    MS_UNBINDABLE,
)

# Attribute options (mount(8), mount_setattr(2)): name: (set, clear). With a leading "r": the same, recursively.
ATTRS: "dict[str, tuple[int, int]]" = {
    "ro": (MOUNT_ATTR_RDONLY, 0),
    "rw": (0, MOUNT_ATTR_RDONLY),
    "nosuid": (MOUNT_ATTR_NOSUID, 0),
    "suid": (0, MOUNT_ATTR_NOSUID),
    "nodev": (MOUNT_ATTR_NODEV, 0),
    "dev": (0, MOUNT_ATTR_NODEV),
    "noexec": (MOUNT_ATTR_NOEXEC, 0),
    "exec": (0, MOUNT_ATTR_NOEXEC),
    "noatime": (MOUNT_ATTR_NOATIME, MOUNT_ATTR_ATIME),
    "atime": (0, MOUNT_ATTR_ATIME),
    "relatime": (0, MOUNT_ATTR_ATIME),
    "norelatime": (MOUNT_ATTR_STRICTATIME, MOUNT_ATTR_ATIME),
    "strictatime": (MOUNT_ATTR_STRICTATIME, MOUNT_ATTR_ATIME),
    "nostrictatime": (0, MOUNT_ATTR_ATIME),
    "nodiratime": (MOUNT_ATTR_NODIRATIME, 0),
    "diratime": (0, MOUNT_ATTR_NODIRATIME),
    "nosymfollow": (MOUNT_ATTR_NOSYMFOLLOW, 0),
    "symfollow": (0, MOUNT_ATTR_NOSYMFOLLOW),
}
PROPAGATION = {
    "shared": MS_SHARED,
    "slave": MS_SLAVE,
    "private": MS_PRIVATE,
    "unbindable": MS_UNBINDABLE,
}
# Flags of the file system, not of the mount: passed to it by name (fsconfig(2), FSCONFIG_SET_FLAG).
SUPERBLOCK = ("sync", "async", "dirsync", "lazytime", "nolazytime", "mand", "nomand")
# Words without an effect here: a new mount is not a remount, and nothing is printed.
NOTHING = ("defaults", "remount", "silent", "loud", "iversion", "noiversion")
OWN = ("bind", "rbind", "tmpcopyup", "idmap", "ridmap", "copy-symlink", "src-nofollow")


def option_names() -> "list[str]":
    """Returns every option of mounts that krun itself knows, for `features`."""
    names = [*ATTRS, *("r" + name for name in ATTRS), *SUPERBLOCK, *NOTHING, *OWN]
    for name in PROPAGATION:
        names += [name, "r" + name]
    return sorted(set(names))


class Options:
    """A mount's options, sorted by what they act on."""

    __slots__ = (
        "bind",
        "recursive",
        "set",
        "clear",
        "rec_set",
        "rec_clear",
        "propagation",
        "data",
        "copy_up",
        "copy_link",
        "no_follow",
        "idmap",
    )

    def __init__(self) -> None:
        self.bind = self.recursive = self.copy_up = self.copy_link = self.no_follow = False
        self.set = self.clear = self.rec_set = self.rec_clear = 0
        self.propagation: list[int] = []
        self.data: list[tuple[str, str | None]] = []
        self.idmap = ""


def parse(words: "list[str]") -> Options:
    """Sorts mount options; what is not known goes to the file system (config.md, "Linux mount options")."""
    out = Options()
    for word in words:
        if word in ATTRS:
            on, off = ATTRS[word]
            # The last word wins, as with mount(8).
            out.set = out.set & ~off & ~_inverse(on) | on
            out.clear = out.clear & ~on | off
        elif word in PROPAGATION:
            out.propagation.append(PROPAGATION[word])
        elif word[:1] == "r" and word[1:] in PROPAGATION:
            out.propagation.append(PROPAGATION[word[1:]] | MS_REC)
        elif word[:1] == "r" and word[1:] in ATTRS:
            on, off = ATTRS[word[1:]]
            out.rec_set = out.rec_set & ~off | on
            out.rec_clear = out.rec_clear & ~on | off
        elif word == "bind":
            out.bind = True
        elif word == "rbind":
            out.bind = out.recursive = True
        elif word in ("idmap", "ridmap"):
            out.idmap = word
        elif word == "tmpcopyup":
            out.copy_up = True
        elif word == "copy-symlink":
            out.copy_link = True
        elif word == "src-nofollow":
            out.no_follow = True
        elif word in SUPERBLOCK:
            out.data.append((word, None))
        elif word not in NOTHING and word:
            for part in word.split(","):
                key, equals, value = part.partition("=")
                out.data.append((key, value if equals else None))
    return out


def _inverse(on: int) -> int:
    """Atime settings exclude one another: any of them takes the others' bits away."""
    return MOUNT_ATTR_ATIME if on & MOUNT_ATTR_ATIME else 0
