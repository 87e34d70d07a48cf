"""The verbs that no engine calls: one row each, as in krun.cli.table, which has the verbs of an OCI runtime.

A call of a container engine does not import this file.
"""

from krun.cli.table import RUNTIME, Flag, Verb

_DATA = Flag(
    ("directory",), "str", None, "directory of krun serve's data (default /var/lib/krun-serve)", "krun"
)
_API = Flag(("api",), "str", None, "ADDRESS:PORT of the API (default 127.0.0.1:8001)", "krun")

#: Verbs of krun itself.
OWN = (
    Verb(
        "install",
        "krun.cli.install:install",
        (("engine", "one"),),
        (
            Flag(("dry-run",), "bool", False, "show the difference and change nothing", "krun"),
            Flag(("path",), "str", None, "command to register; default: this one", "krun"),
            Flag(("default",), "bool", False, "make krun the engine's default runtime", "krun"),
            Flag(("file",), "str", None, "configuration file of the engine", "krun"),
        ),
        "register krun with podman, docker, containerd or crio, as krun and as kontain, the name that users of Kontain know",
        False,
    ),
    Verb(
        "uninstall",
        "krun.cli.install:uninstall",
        (("engine", "one"),),
        (
            Flag(("dry-run",), "bool", False, "show the difference and change nothing", "krun"),
            Flag(("file",), "str", None, "configuration file of the engine", "krun"),
        ),
        "take krun out of an engine's configuration",
        False,
    ),
    Verb(
        "doctor",
        "krun.cli.doctor:main",
        (),
        (Flag(("format", "f"), "str", None, "text or json", "krun"),),
        "check what krun needs of this host, with cause and remedy",
        False,
    ),
    Verb(
        "metrics",
        "krun.oci.metrics:main",
        (("ids", "rest"),),
        (
            Flag(("file",), "str", None, "file that is replaced by the metrics", "krun"),
            Flag(("listen",), "str", None, "path of a unix socket that serves GET /metrics", "krun"),
        ),
        "print metrics of containers (default: of all of this root) as Prometheus text",
        False,
    ),
    Verb(
        "trace",
        "krun.oci.trace:main",
        (("id", "one"),),
        (
            Flag(
                ("expression", "e"),
                "list",
                None,
                "calls: names, %file, %desc, %network, %process, %signal, %memory, %ipc, %creds, %clock; with ! all others; signal=none",
                "krun",
            ),
            Flag(
                ("pid", "p"),
                "list",
                None,
                "process, by its number in the container, and its new children",
                "krun",
            ),
            Flag(("errno",), "list", None, "calls that failed with this error, as ENOENT", "krun"),
            Flag(("failed", "Z"), "bool", False, "calls that failed", "krun"),
            Flag(("json",), "bool", False, "a line of JSON for each call", "krun"),
            Flag(("string",), "int", None, "bytes of a buffer that are shown (default 32)", "krun"),
            Flag(("output", "o"), "str", None, "file that is written, in place of standard output", "krun"),
        ),
        "show the system calls of a running container until SIGINT or its end",
        False,
    ),
    Verb(
        "debug",
        "krun.oci.debug:main",
        (("id", "one"),),
        (Flag(("json",), "bool", False, "as JSON", "krun"),),
        "show what each thread of a container does: registers, system call, wait, stack; no process notices",
        False,
    ),
    Verb(
        "serve",
        "krun.serve.cli:serve",
        (("args", "rest"),),
        (
            _DATA,
            _API,
            Flag(
                ("listen",),
                "str",
                None,
                "ADDRESS:PORT for requests to services (default 127.0.0.1:8080)",
                "krun",
            ),
            Flag(("unix",), "str", None, "a unix socket that serves the API, too", "krun"),
            Flag(("domain",), "str", None, "domain of the services' hosts (default localhost)", "krun"),
            Flag(
                ("runtime",),
                "str",
                None,
                "OCI runtime that starts the instances (default: this krun)",
                "krun",
            ),
            Flag(
                ("images",), "list", None, "directory of images: layouts, archives, root directories", "krun"
            ),
            Flag(("network",), "str", None, "way out of instances: none (default) or bridge", "krun"),
            Flag(("network-pool",), "str", None, "their IPv4 network (default: a free one)", "krun"),
            Flag(("network-allow",), "list", None, "host, instances or a network: open to them", "krun"),
            Flag(("network-names",), "str", None, "other names: forward (default) or refuse", "krun"),
            Flag(("network-flows",), "int", None, "connections of an instance (default 4096)", "krun"),
            Flag(
                ("client-connections",),
                "int",
                None,
                "connections of one address to the services (default 4096)",
                "krun",
            ),
            Flag(("no-pull",), "bool", False, "never fetch an image from a registry", "krun"),
            Flag(
                ("max-instances",),
                "int",
                None,
                "instances of all services together (default 32 a processor)",
                "krun",
            ),
            Flag(
                ("memory-budget",),
                "str",
                None,
                "memory of all instances, as 4Gi (default 80 % of the machine's)",
                "krun",
            ),
            Flag(
                ("idle",), "str", None, "run, freeze or stop instances without requests (default run)", "krun"
            ),
            Flag(
                ("idle-delay",),
                "str",
                None,
                "time without a request before --idle applies (default 10s)",
                "krun",
            ),
            Flag(("token-file",), "str", None, "file with the bearer token that the API demands", "krun"),
            Flag(("certificate",), "str", None, "PEM file: serve with TLS", "krun"),
            Flag(("key",), "str", None, "PEM file with the certificate's key", "krun"),
            Flag(
                ("access-log",),
                "str",
                None,
                "file that gets a line of JSON for each request and session",
                "krun",
            ),
            Flag(("server-timing",), "bool", False, "add a Server-Timing field to responses", "krun"),
            Flag(("trace-headers",), "bool", False, "add a traceparent to requests without one", "krun"),
            Flag(("print-kubeconfig",), "bool", False, "print the kubeconfig and end", "krun"),
        ),
        "run Knative services on this machine; export [NAME...] prints them as manifests, unit a unit of systemd",
        False,
    ),
    Verb(
        "deploy",
        "krun.serve.deploy:main",
        (("image", "one"),),
        (
            _API,
            Flag(("name",), "str", None, "name of the service (default: from the image)", "krun"),
            Flag(("namespace", "n"), "str", None, "namespace (default: default)", "krun"),
            Flag(("env", "e"), "list", None, "NAME=VALUE for the environment", "krun"),
            Flag(("port",), "int", None, "port that the program listens on (default 8080)", "krun"),
            Flag(("token-file",), "str", None, "file with the API's bearer token", "krun"),
            _DATA,
        ),
        "make or update a service of a running krun serve from an image or a directory",
        False,
    ),
    Verb(
        "conformance",
        "krun.conformance.cli:main",
        (),
        (
            Flag(("runtime",), "str", None, "OCI runtime that is checked", "krun"),
            Flag(("platform",), "str", None, "platform that is checked: URL of its API", "krun"),
            Flag(("kubeconfig",), "str", None, "file with the platform's URL and credentials", "krun"),
            Flag(
                ("ingress",), "str", None, "HOST:PORT of the platform's services (default: asked for)", "krun"
            ),
            Flag(("probe-image",), "str", None, "the probe's image on the platform", "krun"),
            Flag(("write-image",), "str", None, "write that image as an OCI archive, and end", "krun"),
            Flag(("docs",), "str", None, "page or directory of pages that is checked", "krun"),
            Flag(("profile",), "str", None, "text of the contract: 2019 or current (default)", "krun"),
            Flag(("format", "f"), "str", None, "table (default), json or junit", "krun"),
        ),
        "check an OCI runtime, a platform or its documents against Knative's runtime contract; 1 if a MUST fails",
        False,
    ),
    Verb(
        "man",
        "krun.cli.manpages:main",
        (("directory", "opt"),),
        (),
        "write the manual pages into a directory (default: krun.8 to standard output)",
        False,
    ),
    Verb(
        "completion",
        "krun.cli.completion:main",
        (("shell", "one"),),
        (),
        "print the completion script for bash, zsh or fish",
        False,
    ),
)

VERBS = RUNTIME + OWN


def verb(name: str) -> "Verb | None":
    """Return the row of a verb."""
    for row in VERBS:
        if row.name == name:
            return row
    return None
