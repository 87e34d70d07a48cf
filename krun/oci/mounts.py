"""mounts of config.json: the option table, and one step per kind of mount.

Every mount is made detached (fsopen(2) or open_tree(2)), gets its attributes there, and is then attached to a
descriptor of its destination: it is never visible half-made, and no path is followed twice. Needs Linux 5.12.
"""

import os

from krun.errors import ConfigError, KrunError, SysError
from krun.mountio import (
    AT_RECURSIVE,
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
    OPEN_TREE_CLONE,
    mount_setattr,
    move_mount,
    new_mount,
    open_tree,
)
from krun.oci import places
from krun.oci.steps import (
    PATH,
    Context,
    Step,
    clean,
    is_dir,
    label_file,
    labelled,
)
from krun.sysio import (
    AT_FDCWD,
    BINFMTFS_MAGIC,
    PROC_SUPER_MAGIC,
    fs_magic,
    read_file,
)
from krun.treeio import copy_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Mount, Spec

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
OWN = ("bind", "rbind", "tmpcopyup", "idmap", "ridmap")


# An instance of binfmt_misc that the payload can write chooses the program that starts in the monitor's place.
NO_BINFMT = "binfmt_misc is not served: its entries run programs of the image natively; remove the mount"


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
        "idmap",
    )

    def __init__(self) -> None:
        self.bind = self.recursive = self.copy_up = False
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


class MountStep(Step):
    """The common part of all mounts: destination, options, attaching. kept: later steps look below it (places.py),
    as SealBinfmt does below each tree that is bound with what is mounted in it."""

    __slots__ = ("mount", "options", "destination", "index", "kept")

    def __init__(self, mount: "Mount", options: Options, index: int) -> None:
        self.mount = mount
        self.options = options
        self.destination = clean(mount.destination)
        self.index = index
        self.kept = False

    def describe(self) -> str:
        words = ",".join(self.mount.options)
        return (
            f"mount {self.mount.type or 'bind'} {self.mount.source or 'none'} on {self.destination} ({words})"
        )

    def attach(self, ctx: Context, fd: int, place: int) -> None:
        """Attaches the finished mount and sets its propagation, which counts only for an attached one."""
        name = self.destination
        place_is_root = name == "/"
        places.attach(ctx, fd, place, name)
        for flags in self.options.propagation:
            mount_setattr(fd, 0, 0, flags & ~MS_REC, recursive=bool(flags & MS_REC), name=name)
        os.close(place)
        if place_is_root:
            # The image's tree is hidden now: later destinations lie in this mount.
            os.dup2(fd, ctx.root, inheritable=False)
            places.close_all([kept for _, kept in ctx.attached])
            ctx.attached.clear()
        if (self.kept or (self.options.recursive and is_dir(fd))) and not place_is_root:
            ctx.attached.append((name, fd))
        else:
            os.close(fd)

    def set_attrs(self, fd: int) -> None:
        """Applies plain and recursive attributes to a detached tree."""
        options = self.options
        if options.set or options.clear:
            mount_setattr(fd, options.set, options.clear, name=self.destination)
        if options.rec_set or options.rec_clear:
            mount_setattr(fd, options.rec_set, options.rec_clear, recursive=True, name=self.destination)


# File systems that the policy labels itself, or that do not accept context= (runc's list).
_UNLABELLED = frozenset(("proc", "sysfs", "mqueue", "cgroup2"))


class FsMount(MountStep):
    """A new instance of a file system: tmpfs, proc, sysfs, devpts, mqueue, cgroup2, overlay, ..."""

    __slots__ = ()

    def execute(self, ctx: Context) -> None:
        kind, name = self.mount.type, self.destination
        if kind in ("proc", "sysfs"):
            place = places.plain_directory(ctx, name, f'filesystem "{kind}"')
        else:
            place = places.directory(ctx, name)
        data = self.options.data
        if self.mount.source:
            data = [("source", self.mount.source), *data]
        if kind == "tmpfs" and not any(key == "mode" for key, _ in data):
            # The tree's own mode shows through, as with runc; tmpfs would make it 1777.
            data = [*data, ("mode", f"{os.fstat(place).st_mode & 0o7777:o}")]
        if kind not in _UNLABELLED:
            data = labelled(data, ctx.mount_label)
        fd = new_mount(kind, data, self.options.set, name)
        if kind == "mqueue":
            label_file(fd, ctx.mount_label, name)
        if self.options.rec_set or self.options.rec_clear:
            mount_setattr(fd, self.options.rec_set, self.options.rec_clear, recursive=True, name=name)
        if self.options.copy_up:
            self.copy_up(ctx, fd, place)
        self.attach(ctx, fd, place)

    def copy_up(self, ctx: Context, fd: int, place: int) -> None:
        """Copies what the mount will hide into it (option tmpcopyup). A read-only tmpfs is opened for it meanwhile."""
        if self.options.set & MOUNT_ATTR_RDONLY:
            mount_setattr(fd, 0, MOUNT_ATTR_RDONLY, name=self.destination)
        source = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        target = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            # The mount keeps its own mode and owner, as with runc: options may have set them.
            copy_tree(source, target)
        except OSError as e:
            raise SysError("copy up", self.destination, e.errno or 0) from None
        finally:
            os.close(source)
            os.close(target)
        if self.options.set & MOUNT_ATTR_RDONLY:
            mount_setattr(fd, MOUNT_ATTR_RDONLY, name=self.destination)


class BindMount(MountStep):
    """A bind mount: a clone of a host tree, taken by the child, or by the parent where the child could not reach it."""

    __slots__ = ("source",)

    def __init__(self, mount: "Mount", options: Options, index: int, bundle: str) -> None:
        super().__init__(mount, options, index)
        self.source = mount.source if mount.source.startswith("/") else f"{bundle}/{mount.source}"

    def describe(self) -> str:
        words = ",".join(self.mount.options)
        return f"bind {self.source} on {self.destination} ({words})"

    def open_source(self) -> int:
        """Clones the source tree. Returns the detached mount's descriptor. Raises SysError."""
        flags = OPEN_TREE_CLONE | (AT_RECURSIVE if self.options.recursive else 0)
        return open_tree(AT_FDCWD, self.source, flags)

    def execute(self, ctx: Context) -> None:
        name = self.destination
        fd = ctx.sources.get(self.index, -1)
        from_parent = fd >= 0
        if not from_parent:
            fd = self.open_source()
        below_proc = name == "/proc" or name.startswith("/proc/")
        if fs_magic(fd, self.source) == BINFMTFS_MAGIC:
            raise KrunError(f"bind {self.source} on {name}: {NO_BINFMT}")
        if below_proc:
            check_over_proc(name, fd)
        self.set_attrs(fd)
        if name in ("/proc", "/sys"):
            place = places.plain_directory(ctx, name, "a bind mount")
        else:
            place = places.directory(ctx, name) if is_dir(fd) else places.file(ctx, name)
        if not below_proc and fs_magic(place, name) == PROC_SUPER_MAGIC:
            # A link of the image may lead there.
            check_over_proc(real_name(ctx, place), fd)
        if from_parent and not self.options.propagation:
            # Cloned in the host's mount namespace: not to hear of us, as one cloned here would not.
            mount_setattr(fd, 0, 0, MS_SLAVE, recursive=True, name=name)
        self.attach(ctx, fd, place)


# Files below /proc over which a file may be bound, as lxcfs and similar programs do (runc's list).
_OVER_PROC = frozenset(
    "/proc/" + name
    for name in (
        "cpuinfo",
        "diskstats",
        "meminfo",
        "stat",
        "swaps",
        "uptime",
        "loadavg",
        "slabinfo",
        "net/dev",
        "sys/kernel/ns_last_pid",
        "sys/crypto/fips_enabled",
    )  # fmt: skip
)


def real_name(ctx: Context, place: int) -> str:
    """Returns the path below the container's root of what a descriptor is open on. Raises OSError."""
    root, there = (os.readlink(f"self/fd/{fd}", dir_fd=ctx.proc) for fd in (ctx.root, place))
    return there.removeprefix(root.rstrip("/"))


def check_over_proc(name: str, fd: int) -> None:
    """Raises KrunError for a mount that would hide a part of /proc that labels and limits are written to
    (CVE-2019-16884)."""
    if name in _OVER_PROC:
        return
    if name == "/proc" and fs_magic(fd, name) == PROC_SUPER_MAGIC:
        return
    raise KrunError(f'"{name}" cannot be mounted because it is inside /proc')


class CgroupMount(MountStep):
    """Type cgroup: on cgroup v2 the hierarchy, on v1 a tmpfs with one mount per hierarchy, as runc has it.

    With a cgroup namespace the kernel shows the container's cgroup as the root; without one its directory is bound.
    """

    __slots__ = ("namespace",)

    def __init__(self, mount: "Mount", options: Options, index: int, namespace: bool) -> None:
        super().__init__(mount, options, index)
        self.namespace = namespace

    def execute(self, ctx: Context) -> None:
        hierarchies = own_hierarchies(ctx.proc)
        if [label for label, _ in hierarchies] == [""]:
            self._mount_v2(ctx, hierarchies[0][1])
            return
        name = self.destination
        attrs = self.options.set
        place = places.directory(ctx, name)
        top = new_mount(
            "tmpfs", labelled([("mode", "755")], ctx.mount_label), attrs & ~MOUNT_ATTR_RDONLY, name
        )
        pending: list[tuple[int, int, str]] = []
        for label, folder in hierarchies:
            if not label:
                continue  # hybrid: the v1 controllers are what the container is limited by
            folder_name = label[5:] if label.startswith("name=") else label
            os.mkdir(folder_name, 0o755, dir_fd=top)
            below = os.open(folder_name, PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            if self.namespace:
                words: list[tuple[str, str | None]] = [(word, None) for word in label.split(",")]
                if label.startswith("name="):
                    words = [("none", None), ("name", label[5:])]
                fd = new_mount("cgroup", words, attrs, f"{name}/{folder_name}")
            else:
                fd = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE)
                mount_setattr(fd, attrs, name=f"{name}/{folder_name}")
            if "," in folder_name:
                for controller in folder_name.split(","):
                    os.symlink(folder_name, controller, dir_fd=top)
            pending.append((fd, below, f"{name}/{folder_name}"))
        # Only an attached mount can be mounted upon, and only a finished one be closed to writing.
        hold = os.dup(top)
        self.attach(ctx, top, place)
        for fd, below, where in pending:
            move_mount(fd, below, where)
            os.close(fd)
            os.close(below)
        if attrs & MOUNT_ATTR_RDONLY:
            mount_setattr(hold, MOUNT_ATTR_RDONLY, name=name)
        os.close(hold)

    def _mount_v2(self, ctx: Context, folder: str) -> None:
        name = self.destination
        place = places.directory(ctx, name)
        if self.namespace:
            fd = new_mount("cgroup2", self.options.data, self.options.set, name)
        else:
            fd = open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE)
            self.set_attrs(fd)
        self.attach(ctx, fd, place)


def own_hierarchies(proc: int) -> "list[tuple[str, str]]":
    """Returns, for each mounted cgroup hierarchy, its label and the host directory of our own cgroup in it.

    Argument: proc, a procfs of krun's own: /proc is another container's if its mount namespace was joined.
    The label is the controllers as /proc/self/cgroup lists them ("cpu,cpuacct"), "name=..." for a named one, "" for
    cgroup v2 (cgroups(7)). Must run before the cgroup namespace is unshared, which hides the host's path.
    """
    own: dict[str, str] = {}
    for line in read_file("self/cgroup", dirfd=proc).decode().splitlines():
        _, label, path = line.split(":", 2)
        own[label] = path
    found: dict[str, str] = {}
    for line in read_file("self/mountinfo", dirfd=proc).decode("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        words = set(options.split(","))
        root, point = left.split(" ")[3:5]
        for label, path in own.items():
            if label in found:
                continue
            if kind == "cgroup2" if label == "" else kind == "cgroup" and set(label.split(",")) <= words:
                inside = path if root == "/" else path.removeprefix(root)
                found[label] = point + ("" if inside == "/" else inside)
    return [(label, found[label]) for label in own if label in found]


def is_bind(mount: "Mount") -> bool:
    """Tells whether a mount is a bind: by its options; the type is a dummy then (config.md, "Linux mounts")."""
    return "bind" in mount.options or "rbind" in mount.options


def make(spec: "Spec", warnings: "list[str]") -> "list[MountStep]":
    """Makes the steps for mounts, in the order of the list; adds to `warnings`. Pure. Raises ConfigError."""
    steps: list[MountStep] = []
    for index, mount in enumerate(spec.mounts):
        options = parse(mount.options)
        if is_bind(mount) or mount.type == "bind":
            if not mount.source:
                raise ConfigError(f"/mounts/{index}/source", "a bind mount needs a source")
            if options.data:
                # mount(2) ignores them for a bind, and so do the engines' older runtimes.
                warnings.append(
                    f"mount option {options.data[0][0]} of bind mount {mount.destination} has no effect"
                )
            steps.append(BindMount(mount, options, index, spec.bundle))
        elif mount.type == "cgroup":
            steps.append(CgroupMount(mount, options, index, "cgroup" in spec.namespaces))
        elif not mount.type:
            raise ConfigError(f"/mounts/{index}/type", "is missing")
        elif mount.type.partition(".")[0] == "binfmt_misc":
            raise ConfigError(f"/mounts/{index}/type", NO_BINFMT)
        else:
            if mount.uid_maps or options.idmap:
                raise ConfigError(f"/mounts/{index}", "an id-mapped mount must be a bind mount")
            steps.append(FsMount(mount, options, index))
        if options.idmap and not mount.uid_maps and spec.namespaces.get("user") is None:
            raise ConfigError(
                f"/mounts/{index}/options", f"{options.idmap} without mappings and without user namespace"
            )
    mark_kept(steps, spec)
    return steps


def mark_kept(steps: "list[MountStep]", spec: "Spec") -> None:
    """Marks the mounts below which a later mount, a device, the terminal or a masked or read-only path lies. Pure."""
    wanted = {"/dev", "/dev/pts"}
    for path in (*spec.masked, *spec.readonly, *(device.path for device in spec.devices)):
        wanted.update(places.with_parents(path))
    for step in reversed(steps):
        step.kept = step.destination in wanted
        wanted.update(places.with_parents(step.destination))
