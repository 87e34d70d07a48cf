"""The services that a check of a platform deploys: THE table of cases, with the probe's instructions, and the manifests that
the platform must refuse.

The instructions go to the probe over HTTP (conformance/serve.c). Those of the cases "user", "image", "root" and "readonly" are
the ones of the runtime's cases, so that the same checks judge the answers.
"""

from typing import Any, NamedTuple

from krun.conformance import cases

#: Seconds. WINDOW is the least stable window that Knative takes; a request of SLEEP is longer than it.
WINDOW, SLEEP, GRACE, DEADLINE = 6, 9, 5, 10
USER_PORT = int(cases.PORT)
CODE = 5
VOLUME = {"name": "volume", "configMap": {"name": "probe"}}
MOUNT = {"name": "volume", "mountPath": "/config", "readOnly": True}
TRACE = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
#: Fields that must reach the program: many, one twice, one that is not ASCII (RFC 9110, section 5.5: obs-text).
FIELDS = [
    TRACE,
    ("This-Was-User-Set", "abcd"),
    ("X-Twice", "one"),
    ("X-Twice", "two"),
    ("X-Latin", "caf\u00e9"),
    *((f"X-Field-{number}", f"value {number}") for number in range(60)),
]


class Case(NamedTuple):
    """A service. Fields: the probe's first words; instructions that it gets over HTTP; further fields of the container; further
    fields of the revision's spec; annotations of the revision; becomes ready.
    """

    words: list[str]
    asked: "list[str] | None" = None
    container: "dict[str, Any] | None" = None
    spec: "dict[str, Any] | None" = None
    notes: "dict[str, str] | None" = None
    ready: bool = True


def _asked(name: str) -> list[str]:
    """The instructions of a runtime's case, without words that are no instructions and those that end the probe."""
    verbs = [word for word in cases.CASES[name].words if ":" in word]
    return [word for word in verbs if not word.startswith(("exit:", "call:", "stderr:"))]


def _get(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path}}


_SERVE = ["serve:"]
#: Name -> case. The services have these names.
CASES = {
    "user": Case(
        _SERVE,
        _asked("user"),
        {
            "securityContext": {"runAsUser": cases.UID, "runAsGroup": cases.GID},
            "ports": [{"containerPort": USER_PORT}],
            "readinessProbe": {"tcpSocket": {}},
        },
    ),
    "image": Case(_SERVE, ["self:"]),
    "root": Case(
        _SERVE,
        _asked("root"),
        {
            "securityContext": {"runAsUser": 0},
            "ports": [{"name": "http1", "containerPort": USER_PORT}],
            "readinessProbe": _get("/healthz"),
            "resources": {
                "limits": {"cpu": "1", "memory": "128Mi"},
                "requests": {"cpu": "125m", "memory": "128Mi"},
            },
        },
    ),
    "readonly": Case(
        _SERVE,
        _asked("readonly"),
        {"securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": True}, "volumeMounts": [MOUNT]},
        {"volumes": [VOLUME]},
    ),
    "h2c": Case(_SERVE, None, {"ports": [{"name": "h2c", "containerPort": USER_PORT}]}),
    "zero": Case(_SERVE, notes={"autoscaling.knative.dev/window": f"{WINDOW}s"}),
    "stubborn": Case(["serve:stubborn"], spec={"timeoutSeconds": GRACE}),
    "fails": Case([f"stderr:{cases.MARK}-stderr", f"exit:{CODE}"], ready=False),
    "message": Case(
        [f"write:/dev/termination-log {cases.MARK}", f"exit:{CODE}"],
        container={"terminationMessagePolicy": "FallbackToLogsOnError"},
        ready=False,
    ),
    "unready": Case(
        ["serve:unready"],
        container={"readinessProbe": {**_get("/healthz"), "periodSeconds": 1}},
        notes={"serving.knative.dev/progress-deadline": f"{DEADLINE}s"},
        ready=False,
    ),
}


def service(name: str, image: str) -> dict[str, Any]:
    """Return the manifest of a case. Arguments: name of the case, reference of the probe's image."""
    case = CASES[name]
    container = {
        "image": image,
        "args": [word.replace("$", "$$") for word in case.words],
        **(case.container or {}),
    }
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"annotations": case.notes or {}},
                "spec": {"containers": [container], **(case.spec or {})},
            }
        },
    }


class Forbidden(NamedTuple):
    """What a developer must not set. Fields: number of the row; path below the revision's spec; value. A platform refuses the
    manifest, or drops the field (then the stored object has nothing at the path).
    """

    row: str
    path: tuple[Any, ...]
    value: Any

    @property
    def name(self) -> str:
        """The path as people write it."""
        return ".".join(str(part) for part in self.path)


_C = ("containers", 0)
FORBIDDEN = (
    Forbidden("RC-23", (*_C, "lifecycle"), {"postStart": {"exec": {"command": ["/probe"]}}}),
    Forbidden("RC-23", (*_C, "lifecycle"), {"preStop": {"exec": {"command": ["/probe"]}}}),
    Forbidden("RC-33", (*_C, "ports"), [{"containerPort": 8801}, {"containerPort": 8802}]),
    Forbidden("RC-34", (*_C, "ports", 0), {"containerPort": 8801, "hostPort": 80}),
    Forbidden("RC-39", (*_C, "ports", 0), {"containerPort": 8801, "name": "arbitrary"}),
    Forbidden("RC-50", (*_C, "readinessProbe"), {"httpGet": {"path": "/", "port": "nowhere"}}),
    Forbidden("RC-51", (*_C, "readinessProbe"), {"httpGet": {"path": "/"}, "tcpSocket": {}}),
    Forbidden("RC-63", (*_C, "tty"), True),
    Forbidden("RC-63", (*_C, "stdin"), True),
    Forbidden("RC-63", (*_C, "stdinOnce"), True),
    Forbidden("RC-64", (*_C, "securityContext", "privileged"), True),
    Forbidden("RC-64", (*_C, "securityContext", "procMount"), "Unmasked"),
    Forbidden("RC-64", (*_C, "securityContext", "seLinuxOptions"), {"level": "s0"}),
    Forbidden("RC-64", (*_C, "securityContext", "capabilities"), {"add": ["SYS_ADMIN"]}),
    Forbidden("RC-66", (*_C, "env"), [{"name": "K_SERVICE", "value": "other"}]),
    Forbidden("RC-71", (*_C, "securityContext", "runAsUser"), -10),
    *(
        Forbidden("RC-79", (name,), True)
        for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
    ),
    Forbidden("RC-80", (*_C, "volumeDevices"), [{"name": "volume", "devicePath": "/dev/x"}]),
    Forbidden("RC-86", ("securityContext", "sysctls"), [{"name": "net.core.somaxconn", "value": "1"}]),
    Forbidden(
        "RC-88",
        (*_C, "volumeMounts"),
        [{"name": "volume", "mountPath": "/data", "mountPropagation": "Bidirectional"}],
    ),
)
#: Revision's spec fields without which a forbidden value says nothing: a mount needs its volume (a device may not have it).
BESIDES = {"RC-88": {"volumes": [VOLUME]}}


def forbidden(index: int, image: str) -> dict[str, Any]:
    """Return a manifest with FORBIDDEN[index]."""
    one = FORBIDDEN[index]
    container: dict[str, Any] = {"image": image}
    spec: dict[str, Any] = {"containers": [container], **BESIDES.get(one.row, {})}
    where: Any = spec
    for key, following in zip(one.path, (*one.path[1:], None), strict=True):
        if following is None:
            if isinstance(where, list):
                where.append(one.value)
            else:
                where[key] = one.value
        elif isinstance(where, list):
            where = where[key]
        else:
            where = where.setdefault(key, [] if isinstance(following, int) else {})
    obj = service("image", image)
    obj["metadata"]["name"] = f"refused-{index}"
    obj["spec"]["template"]["spec"] = spec
    return obj
