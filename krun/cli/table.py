"""THE command line: every verb and every flag is one row here. Read by cli.fast (engines), cli.app (click,
people), cli.manpages and cli.completion; tools/gen_docs.py writes docs/cli.md from it. Imports nothing.

Sources: runc's commands and manual pages, crun's where its callers differ (reference/oci.md 2.1 and 2.2).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # names (long first), kind, default, help, dialect
    Flag = tuple[tuple[str, ...], str, Any, str, str]
    # name, "module:function", positionals, flags, help, hot
    Verb = tuple[str, str, tuple[tuple[str, str], ...], tuple[Flag, ...], str, bool]

# Kinds: bool; str; int; list (may be given several times).
# Dialect: runc, crun, both, krun; "hidden" before it ("hidden runc"): accepted, not shown.
# Positionals: (name, how): one; opt (may be missing); rest (everything that follows, flags too: parsing stops
# before it); "one." = one, and flag parsing stops after it.


class Options:
    """What a command line says: one attribute per flag of the verb and of krun itself, dashes as underscores,
    and one per positional. Not given: None (str, int), False (bool), [] (list)."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> "Any": ...
        def __setattr__(self, name: str, value: "Any") -> None: ...


GLOBALS: "tuple[Flag, ...]" = (
    (
        ("root",),
        "str",
        None,
        "directory of the containers' state (tmpfs), absolute; default /run/krun",
        "both",
    ),
    (("log",), "str", None, "file to append log lines to; default: standard error", "both"),
    (("log-format",), "str", None, "text or json", "both"),
    (("log-level",), "str", None, "error, warning or debug", "crun"),
    (("debug",), "bool", False, "log everything", "both"),
    (
        ("systemd-cgroup", "s"),
        "bool",
        False,
        "make cgroups through systemd; cgroupsPath is slice:prefix:name",
        "both",
    ),
    (("cgroup-manager",), "str", None, "cgroupfs, systemd or disabled", "crun"),
    (("rootless",), "str", None, "true, false or auto: do without cgroups that may not be made", "both"),
    (("criu",), "str", None, "ignored", "hidden runc"),
    (("help", "h"), "bool", False, "show help", "both"),
    (("version", "v"), "bool", False, "show the version", "both"),
)

_BUNDLE: "Flag" = (
    ("bundle", "b"),
    "str",
    None,
    "directory that holds config.json; default: working directory",
    "both",
)
_CONFIG: "Flag" = (("config", "f"), "str", None, "configuration file instead of BUNDLE/config.json", "crun")
_CONSOLE: "Flag" = (
    ("console-socket",),
    "str",
    None,
    "AF_UNIX socket that gets the terminal's master",
    "both",
)
_PIDFD: "Flag" = (("pidfd-socket",), "str", None, "AF_UNIX socket that gets a pidfd of the process", "runc")
_PID_FILE: "Flag" = (("pid-file",), "str", None, "file to write the process id to", "both")
_NO_PIVOT: "Flag" = (
    ("no-pivot",),
    "bool",
    False,
    "use MS_MOVE and chroot instead of pivot_root (ramdisk)",
    "both",
)
_NO_KEYRING: "Flag" = (("no-new-keyring",), "bool", False, "keep the caller's session keyring", "both")
_PRESERVE: "Flag" = (("preserve-fds",), "int", None, "hand on N descriptors after 2 and LISTEN_FDS", "both")
_DETACH: "Flag" = (("detach", "d"), "bool", False, "do not wait for the process", "both")
_NO_SUBREAPER: "Flag" = (("no-subreaper",), "bool", False, "do not adopt orphans of the container", "both")
_DRY: "Flag" = (("dry-run",), "bool", False, "print the ordered plan and do nothing", "krun")
_TRACE: "Flag" = (("trace",), "str", None, "file for a trace of the payload's system calls", "krun")
_REGEX: "Flag" = (("regex", "r"), "bool", False, "ID is a regular expression", "crun")
_FORMAT: "Flag" = (("format", "f"), "str", None, "table or json", "both")

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
    (("image-path",), "str", None, "directory of the checkpoint", "both"),
    (("work-path",), "str", None, "directory for logs", "both"),
    (("parent-path",), "str", None, "directory of the checkpoint before, for pre-dump", "both"),
    (("leave-running", "R"), "bool", False, "let the container go on", "both"),
    (("tcp-established",), "bool", False, "keep open TCP connections", "both"),
    (("tcp-skip-in-flight",), "bool", False, "skip in-flight TCP connections", "runc"),
    (("tcp-close",), "bool", False, "close TCP connections on restore", "crun"),
    (("link-remap",), "bool", False, "keep unlinked files", "runc"),
    (("ext-unix-sk",), "bool", False, "keep external unix sockets", "both"),
    (("shell-job",), "bool", False, "keep shell jobs", "both"),
    (("lazy-pages",), "bool", False, "bring memory in later", "runc"),
    (("status-fd",), "int", None, "descriptor that gets a NUL when ready", "runc"),
    (("page-server",), "str", None, "ADDRESS:PORT of a page server", "runc"),
    (("file-locks",), "bool", False, "keep file locks", "both"),
    (("pre-dump",), "bool", False, "memory only, container goes on", "both"),
    (("manage-cgroups-mode",), "str", None, "soft, full, strict or ignore", "both"),
    (("network-lock",), "str", None, "method to lock the network", "crun"),
    (("empty-ns",), "list", None, "namespace to make empty", "runc"),
    (("auto-dedup",), "bool", False, "deduplicate memory images", "runc"),
)

_ID = (("id", "one"),)

VERBS: "tuple[Verb, ...]" = (
    (
        "create",
        "krun.oci.create:main",
        _ID,
        _CREATE,
        "make a container from a bundle; its program waits for start",
        True,
    ),
    ("start", "krun.oci.start:main", _ID, (), "run the program of a created container", True),
    (
        "run",
        "krun.oci.run:main",
        _ID,
        (
            *_CREATE,
            _DETACH,
            (("keep",), "bool", False, "do not delete the container when its process ends", "both"),
        ),
        "create and start a container, wait for it and delete it",
        True,
    ),
    ("state", "krun.oci.state_cmd:main", _ID, (), "print the state of a container as JSON", True),
    (
        "kill",
        "krun.oci.kill:main",
        (("id", "one."), ("signal", "opt")),
        (
            (("all", "a"), "bool", False, "send the signal to every process of the container", "both"),
            _REGEX,
        ),
        "send a signal (name or number; default TERM) to a container's process",
        True,
    ),
    (
        "delete",
        "krun.oci.delete:main",
        _ID,
        (
            (
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
    (
        "exec",
        "krun.oci.exec:main",
        (("id", "one."), ("args", "rest")),
        (
            _CONSOLE,
            _PIDFD,
            (("cwd",), "str", None, "working directory in the container", "both"),
            (("env", "e"), "list", None, "NAME=VALUE for the environment", "both"),
            (("tty", "t"), "bool", False, "give it a terminal", "both"),
            (("user", "u"), "str", None, "UID[:GID], numbers", "both"),
            (("additional-gids", "g"), "list", None, "further group id", "runc"),
            (("process", "p"), "str", None, "JSON file with the whole process", "both"),
            _DETACH,
            _PID_FILE,
            (("process-label",), "str", None, "SELinux label", "both"),
            (("apparmor",), "str", None, "AppArmor profile", "both"),
            (("no-new-privs",), "bool", False, "set no_new_privs", "both"),
            (("cap", "c"), "list", None, "further capability", "both"),
            _PRESERVE,
            (
                ("cgroup",),
                "list",
                None,
                "[CONTROLLER[,CONTROLLER]:]PATH below the container's cgroup",
                "both",
            ),
            (("ignore-paused",), "bool", False, "do it in a paused container as well", "runc"),
            _TRACE,
        ),
        "run a further program in a container, in a VM of its own",
        True,
    ),
    (
        "list",
        "krun.oci.list:main",
        (),
        (_FORMAT, (("quiet", "q"), "bool", False, "print ids only", "both")),
        "list the containers of this root",
        False,
    ),
    (
        "ps",
        "krun.oci.ps:main",
        (("id", "one."), ("args", "rest")),
        (_FORMAT,),
        "list the processes of a container; further arguments go to ps (default -ef)",
        False,
    ),
    ("pause", "krun.oci.pause:pause", _ID, (), "stop all processes of a container", False),
    ("resume", "krun.oci.pause:resume", _ID, (), "let a paused container go on", False),
    (
        "update",
        "krun.oci.update:main",
        _ID,
        (
            (("resources", "r"), "str", None, "JSON file of linux.resources, - = standard input", "both"),
            (("blkio-weight",), "int", None, "block I/O weight, 10 to 1000", "both"),
            (("cpu-period",), "int", None, "CFS period in microseconds", "both"),
            (("cpu-quota",), "int", None, "CFS quota in microseconds per period", "both"),
            (("cpu-burst",), "int", None, "CFS burst in microseconds", "runc"),
            (("cpu-share", "cpu-shares"), "int", None, "relative weight", "both"),
            (("cpu-rt-period",), "int", None, "real-time period in microseconds", "both"),
            (("cpu-rt-runtime",), "int", None, "real-time run time in microseconds", "both"),
            (("cpu-idle",), "int", None, "1 = SCHED_IDLE", "runc"),
            (("cpuset-cpus",), "str", None, "CPUs, as 0-3,5", "both"),
            (("cpuset-mems",), "str", None, "memory nodes", "both"),
            (("memory",), "str", None, "limit in bytes or with b, k, m, g, t; -1 = none", "both"),
            (("memory-reservation",), "str", None, "soft limit", "both"),
            (("memory-swap",), "str", None, "memory plus swap; -1 = none", "both"),
            (("pids-limit",), "int", None, "number of processes; -1 = any", "both"),
            (("l3-cache-schema",), "str", None, "resctrl L3 schema", "runc"),
            (("mem-bw-schema",), "str", None, "resctrl memory bandwidth schema", "runc"),
            (("kernel-memory",), "str", None, "ignored", "hidden both"),
            (("kernel-memory-tcp",), "str", None, "ignored", "hidden both"),
        ),
        "change the limits of a container",
        False,
    ),
    (
        "events",
        "krun.oci.events:main",
        _ID,
        (
            (("interval",), "str", None, "time between two statistics, as 5s or 1m (default 5s)", "runc"),
            (("stats",), "bool", False, "print the statistics once", "runc"),
        ),
        "print statistics and out-of-memory events as JSON lines",
        False,
    ),
    (
        "spec",
        "krun.oci.spec_cmd:main",
        (),
        (
            _BUNDLE,
            (("rootless",), "bool", False, "for a user without root", "both"),
            (("file", "f"), "str", None, "file to write, - = standard output", "crun"),
        ),
        "write a config.json to start from",
        False,
    ),
    ("features", "krun.oci.features:main", (), (), "print what this build can do as JSON", False),
    ("checkpoint", "krun.oci.checkpoint:checkpoint", _ID, _CRIU, "not yet: save a running container", False),
    (
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
            (("lsm-profile",), "str", None, "TYPE:NAME", "both"),
            (("lsm-mount-context",), "str", None, "SELinux mount context", "both"),
        ),
        "not yet: bring a saved container back",
        False,
    ),
    (
        "install",
        "krun.cli.install:install",
        (("engine", "one"),),
        (
            (("dry-run",), "bool", False, "show the difference and change nothing", "krun"),
            (("path",), "str", None, "command to register; default: this one", "krun"),
            (("default",), "bool", False, "make krun the engine's default runtime", "krun"),
            (("file",), "str", None, "configuration file of the engine", "krun"),
        ),
        "register krun with an engine: podman, docker, containerd or crio",
        False,
    ),
    (
        "uninstall",
        "krun.cli.install:uninstall",
        (("engine", "one"),),
        (
            (("dry-run",), "bool", False, "show the difference and change nothing", "krun"),
            (("file",), "str", None, "configuration file of the engine", "krun"),
        ),
        "take krun out of an engine's configuration",
        False,
    ),
    (
        "doctor",
        "krun.cli.doctor:main",
        (),
        ((("format", "f"), "str", None, "text or json", "krun"),),
        "check what krun needs of this host, with cause and remedy",
        False,
    ),
    (
        "man",
        "krun.cli.manpages:main",
        (("directory", "opt"),),
        (),
        "write the manual pages into a directory (default: krun.8 to standard output)",
        False,
    ),
    (
        "completion",
        "krun.cli.completion:main",
        (("shell", "one"),),
        (),
        "print the completion script for bash, zsh or fish",
        False,
    ),
)


def attribute(flag: "Flag") -> str:
    """Return the name of a flag's attribute of Options."""
    return flag[0][0].replace("-", "_")


def verb(name: str) -> "Verb | None":
    """Return the row of a verb."""
    for row in VERBS:
        if row[0] == name:
            return row
    return None


def blank(row: "Verb | None") -> Options:
    """Return Options with nothing given, for a verb or for krun without one."""
    opts = Options()
    for flag in GLOBALS if row is None else GLOBALS + row[3]:
        setattr(opts, attribute(flag), [] if flag[1] == "list" else flag[2])
    for name, how in row[2] if row else ():
        setattr(opts, name, [] if how == "rest" else None)
    return opts
