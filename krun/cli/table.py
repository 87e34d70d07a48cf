"""THE command line: every verb and every flag is one row here. cli.fast (for engines), cli.app (click, for people),
cli.manpages and cli.completion read the table; tools/gen_docs.py writes docs/cli.md from it.

Sources: runc(8) and the manual pages of its commands; crun(1) for flags that only callers of crun pass.
"""

from krun.cli.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Flag:
    """A row of flags.

    Arguments: names, long ones first; kind, bool, str, int or list (may be given several times); default; help;
    dialect, runc, crun, both or krun; "hidden" before it ("hidden runc"): accepted, not shown.
    """

    __slots__ = ("names", "kind", "default", "help", "dialect")

    def __init__(self, names: "tuple[str, ...]", kind: str, default: "Any", help: str, dialect: str) -> None:
        self.names = names
        self.kind = kind
        self.default = default
        self.help = help
        self.dialect = dialect


class Verb:
    """A row of VERBS.

    Arguments: name; call, "module:function"; words, its positionals, each (name, how): one; opt (may be missing); rest
    (everything that follows, flags too: parsing stops before it); "one." = one, and flag parsing stops after it; flags;
    help; hot, whether engines wait for it (tests/unit/test_hotpath.py).
    """

    __slots__ = ("name", "call", "words", "flags", "help", "hot")

    def __init__(
        self,
        name: str,
        call: str,
        words: "tuple[tuple[str, str], ...]",
        flags: "tuple[Flag, ...]",
        help: str,
        hot: bool,
    ) -> None:
        self.name = name
        self.call = call
        self.words = words
        self.flags = flags
        self.help = help
        self.hot = hot


GLOBALS: "tuple[Flag, ...]" = (
    Flag(
        ("root",),
        "str",
        None,
        "directory of the containers' state (tmpfs), absolute; default /run/krun",
        "both",
    ),
    Flag(("log",), "str", None, "file to append log lines to; default: standard error", "both"),
    Flag(("log-format",), "str", None, "text or json", "both"),
    Flag(("log-level",), "str", None, "error, warning or debug", "crun"),
    Flag(("debug",), "bool", False, "log everything", "both"),
    Flag(
        ("systemd-cgroup", "s"),
        "bool",
        False,
        "make cgroups through systemd; cgroupsPath is slice:prefix:name",
        "both",
    ),
    Flag(("cgroup-manager",), "str", None, "cgroupfs, systemd or disabled", "crun"),
    Flag(("rootless",), "str", None, "true, false or auto: do without cgroups that may not be made", "both"),
    Flag(("criu",), "str", None, "ignored", "hidden runc"),
    Flag(
        ("trace-log",),
        "str",
        None,
        "directory for traces: DIR/ID.trace has the system calls of each container that is made, 64 MiB at most",
        "krun",
    ),
    Flag(("help", "h"), "bool", False, "show help", "both"),
    Flag(("version", "v"), "bool", False, "show the version", "both"),
)

_BUNDLE: "Flag" = Flag(
    ("bundle", "b"),
    "str",
    None,
    "directory that holds config.json; default: working directory",
    "both",
)
_CONFIG: "Flag" = Flag(
    ("config", "f"), "str", None, "configuration file instead of BUNDLE/config.json", "crun"
)
_CONSOLE: "Flag" = Flag(
    ("console-socket",),
    "str",
    None,
    "AF_UNIX socket that gets the terminal's master",
    "both",
)
_PIDFD: "Flag" = Flag(
    ("pidfd-socket",), "str", None, "AF_UNIX socket that gets a pidfd of the process", "runc"
)
_PID_FILE: "Flag" = Flag(("pid-file",), "str", None, "file to write the process id to", "both")
_NO_PIVOT: "Flag" = Flag(
    ("no-pivot",),
    "bool",
    False,
    "use MS_MOVE and chroot instead of pivot_root (ramdisk)",
    "both",
)
_NO_KEYRING: "Flag" = Flag(("no-new-keyring",), "bool", False, "keep the caller's session keyring", "both")
_PRESERVE: "Flag" = Flag(
    ("preserve-fds",), "int", None, "hand on N descriptors after 2 and LISTEN_FDS", "both"
)
_DETACH: "Flag" = Flag(("detach", "d"), "bool", False, "do not wait for the process", "both")
_NO_SUBREAPER: "Flag" = Flag(
    ("no-subreaper",), "bool", False, "do not adopt orphans of the container", "both"
)
_DRY: "Flag" = Flag(("dry-run",), "bool", False, "print the ordered plan and do nothing", "krun")
_TRACE: "Flag" = Flag(("trace",), "str", None, "file for a trace of the payload's system calls", "krun")
_REGEX: "Flag" = Flag(("regex", "r"), "bool", False, "ID is a regular expression", "crun")
_FORMAT: "Flag" = Flag(("format", "f"), "str", None, "table or json", "both")

_CREATE: "tuple[Flag, ...]" = (
    _BUNDLE,
    _CONFIG,
    _CONSOLE,
    _PIDFD,
    _PID_FILE,
    _NO_PIVOT,
    _NO_KEYRING,
    _PRESERVE,
    _NO_SUBREAPER,
    _DRY,
    _TRACE,
)

_CRIU: "tuple[Flag, ...]" = (
    Flag(("image-path",), "str", None, "directory of the checkpoint", "both"),
    Flag(("work-path",), "str", None, "directory for logs", "both"),
    Flag(("parent-path",), "str", None, "directory of the checkpoint before, for pre-dump", "both"),
    Flag(("leave-running", "R"), "bool", False, "let the container go on", "both"),
    Flag(("tcp-established",), "bool", False, "keep open TCP connections", "both"),
    Flag(("tcp-skip-in-flight",), "bool", False, "skip in-flight TCP connections", "runc"),
    Flag(("tcp-close",), "bool", False, "close TCP connections on restore", "crun"),
    Flag(("link-remap",), "bool", False, "keep unlinked files", "runc"),
    Flag(("ext-unix-sk",), "bool", False, "keep external unix sockets", "both"),
    Flag(("shell-job",), "bool", False, "keep shell jobs", "both"),
    Flag(("lazy-pages",), "bool", False, "bring memory in later", "runc"),
    Flag(("status-fd",), "int", None, "descriptor that gets a NUL when ready", "runc"),
    Flag(("page-server",), "str", None, "ADDRESS:PORT of a page server", "runc"),
    Flag(("file-locks",), "bool", False, "keep file locks", "both"),
    Flag(("pre-dump",), "bool", False, "memory only, container goes on", "both"),
    Flag(("manage-cgroups-mode",), "str", None, "soft, full, strict or ignore", "both"),
    Flag(("network-lock",), "str", None, "method to lock the network", "crun"),
    Flag(("empty-ns",), "list", None, "namespace to make empty", "runc"),
    Flag(("auto-dedup",), "bool", False, "deduplicate memory images", "runc"),
)

_ID = (("id", "one"),)

RUNTIME: "tuple[Verb, ...]" = (
    Verb(
        "create",
        "krun.oci.create:main",
        _ID,
        _CREATE,
        "make a container from a bundle; its program waits for start",
        True,
    ),
    Verb("start", "krun.oci.start:main", _ID, (), "run the program of a created container", True),
    Verb(
        "run",
        "krun.oci.run:main",
        _ID,
        (
            *_CREATE,
            _DETACH,
            Flag(("keep",), "bool", False, "do not delete the container when its process ends", "both"),
        ),
        "create and start a container, wait for it and delete it",
        True,
    ),
    Verb("state", "krun.oci.state_cmd:main", _ID, (), "print the state of a container as JSON", True),
    Verb(
        "kill",
        "krun.oci.kill:main",
        (("id", "one."), ("signal", "opt")),
        (
            Flag(("all", "a"), "bool", False, "send the signal to every process of the container", "both"),
            _REGEX,
        ),
        "send a signal (name or number; default TERM) to a container's process",
        True,
    ),
    Verb(
        "delete",
        "krun.oci.delete:main",
        _ID,
        (
            Flag(
                ("force", "f"),
                "bool",
                False,
                "kill it first when it runs; no error when there is none",
                "both",
            ),
            _REGEX,
        ),
        "remove a stopped container",
        True,
    ),
    Verb(
        "exec",
        "krun.oci.exec:main",
        (("id", "one."), ("args", "rest")),
        (
            _CONSOLE,
            _PIDFD,
            Flag(("cwd",), "str", None, "working directory in the container", "both"),
            Flag(("env", "e"), "list", None, "NAME=VALUE for the environment", "both"),
            Flag(("tty", "t"), "bool", False, "give it a terminal", "both"),
            Flag(("user", "u"), "str", None, "UID[:GID], numbers", "both"),
            Flag(("additional-gids", "g"), "list", None, "further group id", "runc"),
            Flag(("process", "p"), "str", None, "JSON file with the whole process", "both"),
            _DETACH,
            _PID_FILE,
            Flag(("process-label",), "str", None, "SELinux label", "both"),
            Flag(("apparmor",), "str", None, "AppArmor profile", "both"),
            Flag(("no-new-privs",), "bool", False, "set no_new_privs", "both"),
            Flag(("cap", "c"), "list", None, "further capability", "both"),
            _PRESERVE,
            Flag(
                ("cgroup",),
                "list",
                None,
                "[CONTROLLER[,CONTROLLER]:]PATH below the container's cgroup",
                "both",
            ),
            Flag(("ignore-paused",), "bool", False, "do it in a paused container as well", "runc"),
            _TRACE,
        ),
        "run a further program in a container, in a VM of its own",
        True,
    ),
    Verb(
        "list",
        "krun.oci.list:main",
        (),
        (_FORMAT, Flag(("quiet", "q"), "bool", False, "print ids only", "both")),
        "list the containers of this root",
        False,
    ),
    Verb(
        "ps",
        "krun.oci.ps:main",
        (("id", "one."), ("args", "rest")),
        (_FORMAT,),
        "list the processes of a container; further arguments go to ps (default -ef)",
        False,
    ),
    Verb("pause", "krun.oci.pause:pause", _ID, (), "stop all processes of a container", False),
    Verb("resume", "krun.oci.pause:resume", _ID, (), "let a paused container go on", False),
    Verb(
        "update",
        "krun.oci.update:main",
        _ID,
        (
            Flag(("resources", "r"), "str", None, "JSON file of linux.resources, - = standard input", "both"),
            Flag(("blkio-weight",), "int", None, "block I/O weight, 10 to 1000", "both"),
            Flag(("cpu-period",), "int", None, "CFS period in microseconds", "both"),
            Flag(("cpu-quota",), "int", None, "CFS quota in microseconds per period", "both"),
            Flag(("cpu-burst",), "int", None, "CFS burst in microseconds", "runc"),
            Flag(("cpu-share", "cpu-shares"), "int", None, "relative weight", "both"),
            Flag(("cpu-rt-period",), "int", None, "real-time period in microseconds", "both"),
            Flag(("cpu-rt-runtime",), "int", None, "real-time run time in microseconds", "both"),
            Flag(("cpu-idle",), "int", None, "1 = SCHED_IDLE", "runc"),
            Flag(("cpuset-cpus",), "str", None, "CPUs, as 0-3,5", "both"),
            Flag(("cpuset-mems",), "str", None, "memory nodes", "both"),
            Flag(("memory",), "str", None, "limit in bytes or with b, k, m, g, t; -1 = none", "both"),
            Flag(("memory-reservation",), "str", None, "soft limit", "both"),
            Flag(("memory-swap",), "str", None, "memory plus swap; -1 = none", "both"),
            Flag(("pids-limit",), "int", None, "number of processes; -1 = any", "both"),
            Flag(("l3-cache-schema",), "str", None, "resctrl L3 schema", "runc"),
            Flag(("mem-bw-schema",), "str", None, "resctrl memory bandwidth schema", "runc"),
            Flag(("kernel-memory",), "str", None, "ignored", "hidden both"),
            Flag(("kernel-memory-tcp",), "str", None, "ignored", "hidden both"),
        ),
        "change the limits of a container",
        False,
    ),
    Verb(
        "events",
        "krun.oci.events:main",
        _ID,
        (
            Flag(("interval",), "str", None, "time between two statistics, as 5s or 1m (default 5s)", "runc"),
            Flag(("stats",), "bool", False, "print the statistics once", "runc"),
        ),
        "print statistics and out-of-memory events as JSON lines",
        False,
    ),
    Verb(
        "spec",
        "krun.oci.spec_cmd:main",
        (),
        (
            _BUNDLE,
            Flag(("rootless",), "bool", False, "for a user without root", "both"),
            Flag(("file", "f"), "str", None, "file to write, - = standard output", "crun"),
        ),
        "write a config.json to start from",
        False,
    ),
    Verb("features", "krun.oci.features:main", (), (), "print what this build can do as JSON", False),
    Verb(
        "checkpoint", "krun.oci.checkpoint:checkpoint", _ID, _CRIU, "not yet: save a running container", False
    ),
    Verb(
        "restore",
        "krun.oci.checkpoint:restore",
        _ID,
        (
            *_CRIU,
            _BUNDLE,
            _DETACH,
            _PID_FILE,
            _CONSOLE,
            _NO_SUBREAPER,
            _NO_PIVOT,
            _NO_KEYRING,
            Flag(("lsm-profile",), "str", None, "TYPE:NAME", "both"),
            Flag(("lsm-mount-context",), "str", None, "SELinux mount context", "both"),
        ),
        "not yet: bring a saved container back",
        False,
    ),
)


def attribute(flag: "Flag") -> str:
    """Return the name of a flag's attribute of Options."""
    return flag.names[0].replace("-", "_")


def blank(row: "Verb | None") -> Options:
    """Return Options with nothing given, for a verb or for krun without one."""
    opts = Options()
    for flag in GLOBALS if row is None else GLOBALS + row.flags:
        setattr(opts, attribute(flag), [] if flag.kind == "list" else flag.default)
    for name, how in row.words if row else ():
        setattr(opts, name, [] if how == "rest" else None)
    return opts
