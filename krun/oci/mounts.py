"""mounts of config.json: one step per kind of mount.

Every mount is made detached (fsopen(2) or open_tree(2)), gets its attributes there, and is then attached to a
descriptor of its destination: it is never visible half-made, and no path is followed twice. Needs Linux 5.12.
"""

import os
from errno import EEXIST, EPERM

from krun.errors import ConfigError, KrunError, SysError
from krun.fileio import read_file, split_lines
from krun.mountio import (
    AT_RECURSIVE,
    AT_SYMLINK_NOFOLLOW,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_NOSYMFOLLOW,
    MOUNT_ATTR_RDONLY,
    MS_REC,
    MS_SLAVE,
    OPEN_TREE_CLONE,
    mount_setattr,
    move_mount,
    new_mount,
    open_tree,
)
from krun.oci import places
from krun.oci.fields import below_root
from krun.oci.mountopts import Options, parse
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
    AT_EMPTY_PATH,
    AT_FDCWD,
    BINFMTFS_MAGIC,
    PROC_SUPER_MAGIC,
    fs_magic,
)
from krun.treeio import copy_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from krun.oci.spec import Mount, Spec

# Attributes that a remount of a bind sets or clears as a whole (MS_REMOUNT | MS_BIND of mount(2)).
_PLAIN = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW
# An instance of binfmt_misc that the payload can write chooses the program that starts in the monitor's place.
NO_BINFMT = "binfmt_misc is not served: its entries run programs of the image natively; remove the mount"


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
        attrs, late = self.options.set, False
        if attrs & MOUNT_ATTR_RDONLY and (kind == "tmpfs" or name == "/dev"):
            # krun puts files into them: places of later mounts, devices (rootfs.ReadonlyMounts; runc, finalizeRootfs()).
            attrs, late = attrs & ~MOUNT_ATTR_RDONLY, True
        there = kind == "tmpfs" and exists(ctx, name)
        if kind in ("proc", "sysfs"):
            place = places.plain_directory(ctx, name, f'filesystem "{kind}"')
        else:
            place = places.directory(ctx, name)
        data = self.options.data
        if self.mount.source:
            data = [("source", self.mount.source), *data]
        if there and not any(key == "mode" for key, _ in data):
            # The tree's own mode shows through, as with runc. On a directory that krun has made it is tmpfs's own, 1777.
            data = [*data, ("mode", f"{os.fstat(place).st_mode & 0o7777:o}")]
        if kind not in _UNLABELLED:
            data = labelled(data, ctx.mount_label)
        fd = new_mount(kind, data, attrs, name)
        if late:
            ctx.read_only.append((name, os.dup(fd)))
        if kind == "mqueue":
            label_file(fd, ctx.mount_label, name)
        if self.options.rec_set or self.options.rec_clear:
            mount_setattr(fd, self.options.rec_set, self.options.rec_clear, recursive=True, name=name)
        if self.options.copy_up:
            self.copy_up(ctx, fd, place)
        self.attach(ctx, fd, place)

    def copy_up(self, ctx: Context, fd: int, place: int) -> None:
        """Copies what the mount will hide into it (option tmpcopyup)."""
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


def exists(ctx: Context, path: str) -> bool:
    """Tells whether there is something at a path of the container."""
    fd = places.find(ctx, path)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


class BindMount(MountStep):
    """A bind mount: a clone of a host tree, taken by the child, or by the parent where the child could not reach it.

    inside: path in the container of a source that lies in an earlier mount of a user namespace's container, which the parent does not
    see; else "".
    """

    __slots__ = ("source", "inside")

    def __init__(self, mount: "Mount", options: Options, index: int, bundle: str) -> None:
        super().__init__(mount, options, index)
        self.source = mount.source if mount.source.startswith("/") else f"{bundle}/{mount.source}"
        self.inside = ""

    def describe(self) -> str:
        words = ",".join(self.mount.options)
        return f"bind {self.source} on {self.destination} ({words})"

    def open_source(self) -> int:
        """Clones the source tree. Returns the detached mount's descriptor. Raises SysError."""
        flags = OPEN_TREE_CLONE | (AT_RECURSIVE if self.options.recursive else 0)
        if self.options.no_follow:
            flags |= AT_SYMLINK_NOFOLLOW  # crun: a source that is a link is bound itself
        try:
            return open_tree(AT_FDCWD, self.source, flags)
        except SysError as e:
            raise self._no_source(e.errno) from None

    def _no_source(self, number: int) -> SysError:
        return SysError(
            "open mount source", self.source, number, f"of /mounts/{self.index}, for {self.destination}"
        )

    def _open_inside(self, ctx: Context) -> int:
        """Clones a source that lies in an earlier mount; links are followed below the container's root. Raises SysError."""
        place = places.find(ctx, self.inside, PATH | (os.O_NOFOLLOW if self.options.no_follow else 0))
        if place < 0:
            raise self._no_source(-place)
        flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | (AT_RECURSIVE if self.options.recursive else 0)
        fd = open_tree(place, "", flags, self.source)
        os.close(place)
        return fd

    def _copy_link(self, ctx: Context) -> None:
        """Option copy-symlink (crun): a source that is a link becomes such a link in the container, instead of a mount. Raises SysError."""
        target = os.readlink(self.source)
        folder, _, name = self.destination.rpartition("/")
        place = places.directory(ctx, folder or "/")
        try:
            os.symlink(target, name, dir_fd=place)
        except OSError as e:
            if e.errno != EEXIST or _link_at(place, name) != target:
                raise SysError("make link", self.destination, e.errno or 0) from None
        finally:
            os.close(place)

    def set_attributes(self, fd: int, locked: bool) -> None:
        """Applies the attributes. As with runc, a bind that sets one has none of the source's that it does not name, and one that sets
        none has the source's: "rw" alone does not make a read-only mount of the host writable.

        Argument: locked, whether the source's stay in any case, because the container has a user namespace and the parent has cloned the
        source. The kernel holds on to them where the clone is the child's own (mount_namespaces(7)).
        """
        options, name = self.options, self.destination
        rest = options.clear & ~_PLAIN
        whole = 0 if locked or not options.set else _PLAIN & ~options.set
        if options.set or rest:
            try:
                mount_setattr(fd, options.set, rest | whole, name=name)
            except SysError as e:
                if e.errno != EPERM or not whole:
                    raise
                mount_setattr(fd, options.set, rest, name=name)
        clear = options.rec_clear & ~_PLAIN if locked else options.rec_clear
        if options.rec_set or clear:
            mount_setattr(fd, options.rec_set, clear, recursive=True, name=name)

    def execute(self, ctx: Context) -> None:
        name = self.destination
        if self.options.copy_link and os.path.islink(self.source):
            self._copy_link(ctx)
            return
        fd = ctx.sources.get(self.index, -1)
        from_parent = fd >= 0
        if not from_parent:
            fd = self._open_inside(ctx) if self.inside else self.open_source()
        below_proc = name == "/proc" or name.startswith("/proc/")
        if fs_magic(fd, self.source) == BINFMTFS_MAGIC:
            raise KrunError(f"bind {self.source} on {name}: {NO_BINFMT}")
        if below_proc:
            check_over_proc(name, fd)
        self.set_attributes(fd, from_parent and "user" in ctx.spec.namespaces)
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


def _link_at(place: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=place)
    except OSError:
        return ""


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
    for line in split_lines(read_file("self/cgroup", dirfd=proc).decode("utf-8", "surrogateescape")):
        _, label, path = line.split(":", 2)
        own[label] = path
    found: dict[str, str] = {}
    for line in split_lines(read_file("self/mountinfo", dirfd=proc).decode("utf-8", "surrogateescape")):
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
            step = BindMount(mount, options, index, spec.bundle)
            if "user" in spec.namespaces and not mount.uid_maps and not options.idmap:
                step.inside = within(spec.rootfs, step.source, [earlier.destination for earlier in steps])
            steps.append(step)
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


def within(rootfs: str, source: str, destinations: "list[str]") -> str:
    """Returns the path in the container of a source that lies in one of these mounts, else "". Pure."""
    path = below_root(rootfs, clean(source))
    parents = places.with_parents(path) if path != clean(source) else ()
    return path if any(parent in destinations for parent in parents) else ""


def mark_kept(steps: "list[MountStep]", spec: "Spec") -> None:
    """Marks the mounts below which a later mount, a device, the terminal or a masked or read-only path lies. Pure."""
    wanted = {"/dev", "/dev/pts"}
    for path in (*spec.masked, *spec.readonly, *(device.path for device in spec.devices)):
        wanted.update(places.with_parents(path))
    for step in reversed(steps):
        step.kept = step.destination in wanted
        wanted.update(places.with_parents(step.destination))
