"""THE table of v1alpha1's own fields (knative/serving release-0.5, pkg/apis/serving/v1alpha1): what becomes of each.

docs/knative.md publishes it, and tests/serve/test_v1alpha1.py posts each row's example. All other fields of a RevisionSpec, and of its
container, are those of v1, with the same answers.
"""

from typing import Any, NamedTuple

from krun.serve.model.kinds import CONFIGURATION, REVISION, ROUTE, SERVICE, Kind

Object = dict[str, Any]
SERVED, CONVERTED, REFUSED, IGNORED = "served", "converted", "refused", "ignored"
IMAGE = "reg.example/image"


class Field(NamedTuple):
    """A field. Fields: kind that has it; path below its spec; how it is answered; example, a spec that has it; v1, path of the stored
    object's spec where its value stands ("" if refused or ignored); seen, the value there, or the words of the refusal.
    """

    kind: Kind
    path: str
    how: str
    example: Object
    v1: str
    seen: Any


def revision(**fields: Any) -> Object:
    """Return a Service's spec (runLatest) whose revision has the fields."""
    spec = {"container": {"image": IMAGE}, **fields}
    return {"runLatest": {"configuration": {"revisionTemplate": {"spec": spec}}}}


def container(**fields: Any) -> Object:
    """Return the same whose container has the fields."""
    return revision(container={"image": IMAGE, **fields})


_TEMPLATE = {"revisionTemplate": {"spec": {"container": {"image": IMAGE}}}}
_REVISION = "runLatest.configuration.revisionTemplate.spec"
_CONTAINER = f"{_REVISION}.container"
_SPEC = "template.spec"
_FIRST = "template.spec.containers.0"
_LATEST = {"latestRevision": True}


def _pinned(**fields: Any) -> Object:
    return {"pinned": {"revisionName": "x-1", "configuration": _TEMPLATE, **fields}}


def _release(revisions: list[str], percent: int) -> Object:
    return {"release": {"revisions": revisions, "rolloutPercent": percent, "configuration": _TEMPLATE}}


def _route(**fields: Any) -> Object:
    return {"traffic": [{"percent": 100, **fields}]}


_BUILD = "krun serve has no builds; build the image before, and leave the field out"
_MISSING_MODE = "expected exactly one, got neither: spec.manual, spec.pinned, spec.release, spec.runLatest"
#: In the order of the page.
FIELDS = (
    Field(SERVICE, "(no mode)", REFUSED, {}, "", _MISSING_MODE),
    Field(
        SERVICE, "runLatest.configuration", CONVERTED, revision(), "traffic", [{**_LATEST, "percent": 100}]
    ),
    Field(SERVICE, "pinned.revisionName", CONVERTED, _pinned(), "traffic.0.revisionName", "x-1"),
    Field(SERVICE, "pinned.configuration", CONVERTED, _pinned(), f"{_FIRST}.image", IMAGE),
    Field(
        SERVICE, "release.revisions", CONVERTED, _release(["x-1", "@latest"], 20), "traffic.0.tag", "current"
    ),
    Field(
        SERVICE,
        "release.rolloutPercent",
        CONVERTED,
        _release(["x-1", "@latest"], 20),
        "traffic.1.percent",
        20,
    ),
    Field(SERVICE, "release.configuration", CONVERTED, _release(["x-1"], 0), f"{_FIRST}.image", IMAGE),
    Field(SERVICE, "manual", CONVERTED, {"manual": {}}, "", {}),
    Field(
        SERVICE,
        "template",
        SERVED,
        {"template": {"spec": {"containers": [{"image": IMAGE}]}}},
        f"{_FIRST}.image",
        IMAGE,
    ),
    Field(
        SERVICE,
        "traffic",
        SERVED,
        {"template": {"spec": {"container": {"image": IMAGE}}}, "traffic": [{**_LATEST, "percent": 100}]},
        "traffic",
        [{**_LATEST, "percent": 100}],
    ),
    Field(SERVICE, "generation", IGNORED, {"generation": 7, **revision()}, "generation", None),
    Field(CONFIGURATION, "revisionTemplate", CONVERTED, _TEMPLATE, f"{_FIRST}.image", IMAGE),
    Field(
        CONFIGURATION,
        "template",
        SERVED,
        {"template": _TEMPLATE["revisionTemplate"]},
        f"{_FIRST}.image",
        IMAGE,
    ),
    Field(CONFIGURATION, "build", REFUSED, {**_TEMPLATE, "build": {"apiVersion": "x"}}, "", _BUILD),
    Field(CONFIGURATION, "generation", IGNORED, {**_TEMPLATE, "generation": 7}, "generation", None),
    Field(REVISION, "container", CONVERTED, revision(), f"{_FIRST}.image", IMAGE),
    Field(
        REVISION,
        "containers",
        SERVED,
        {"template": {"spec": {"containers": [{"image": IMAGE}]}}},
        f"{_FIRST}.image",
        IMAGE,
    ),
    Field(
        REVISION,
        "concurrencyModel",
        CONVERTED,
        revision(concurrencyModel="Single"),
        f"{_SPEC}.containerConcurrency",
        1,
    ),
    Field(
        REVISION,
        "containerConcurrency",
        SERVED,
        revision(containerConcurrency=7),
        f"{_SPEC}.containerConcurrency",
        7,
    ),
    Field(REVISION, "timeoutSeconds", SERVED, revision(timeoutSeconds=300), f"{_SPEC}.timeoutSeconds", 300),
    Field(
        REVISION,
        "timeoutSeconds over 300",
        REFUSED,
        revision(timeoutSeconds=301),
        "",
        f"expected 0 <= 301 <= 300: spec.{_REVISION}.timeoutSeconds",
    ),
    Field(
        REVISION,
        "serviceAccountName",
        SERVED,
        revision(serviceAccountName="sa"),
        f"{_SPEC}.serviceAccountName",
        "sa",
    ),
    Field(
        REVISION,
        "volumes",
        SERVED,
        revision(
            volumes=[{"name": "v", "secret": {"secretName": "s"}}],
            container={"image": IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        ),
        f"{_SPEC}.volumes.0.name",
        "v",
    ),
    Field(REVISION, "buildName", REFUSED, revision(buildName="b"), "", _BUILD),
    Field(REVISION, "buildRef", REFUSED, revision(buildRef={"name": "b"}), "", _BUILD),
    Field(REVISION, "servingState", IGNORED, revision(servingState="Active"), f"{_SPEC}.servingState", None),
    Field(REVISION, "generation", IGNORED, revision(generation=7), f"{_SPEC}.generation", None),
    Field(
        REVISION,
        "container.name",
        REFUSED,
        container(name="n"),
        "",
        f"must not set the field(s): spec.{_CONTAINER}.name",
    ),
    Field(
        REVISION,
        "container.lifecycle",
        REFUSED,
        container(lifecycle={"preStop": {}}),
        "",
        f"must not set the field(s): spec.{_CONTAINER}.lifecycle",
    ),
    Field(
        REVISION,
        "container.resources.requests.cpu (absent)",
        CONVERTED,
        revision(),
        f"{_FIRST}.resources.requests.cpu",
        "400m",
    ),
    Field(
        REVISION,
        "container.ports[].containerPort 0",
        REFUSED,
        container(ports=[{"containerPort": 0}]),
        "",
        f"expected 1 <= 0 <= 65535: spec.{_CONTAINER}.ports[0].containerPort",
    ),
    Field(
        REVISION,
        "container.ports[].containerPort 8012, 8022, 9090",
        REFUSED,
        container(ports=[{"containerPort": 8022}]),
        "",
        f"invalid value: 8022: spec.{_CONTAINER}.ports[0].containerPort",
    ),
    Field(
        REVISION,
        "container.volumeMounts[].mountPath /tmp, /var, ...",
        REFUSED,
        container(volumeMounts=[{"name": "v", "mountPath": "/tmp"}]),
        "",
        'mountPath "/tmp" is a reserved path',
    ),
    Field(
        REVISION,
        "container.volumeMounts[].subPath",
        REFUSED,
        container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}]),
        "",
        f"must not set the field(s): spec.{_CONTAINER}.volumeMounts[0].subPath",
    ),
    Field(
        REVISION,
        "container.readinessProbe.httpGet.port",
        REFUSED,
        container(readinessProbe={"httpGet": {"port": 80}}),
        "",
        f"must not set the field(s): spec.{_CONTAINER}.readinessProbe.httpGet.port",
    ),
    Field(
        ROUTE,
        "traffic[].configurationName",
        SERVED,
        _route(configurationName="c"),
        "traffic.0.configurationName",
        "c",
    ),
    Field(ROUTE, "traffic[].revisionName", SERVED, _route(revisionName="r"), "traffic.0.revisionName", "r"),
    Field(ROUTE, "traffic[].percent", SERVED, _route(configurationName="c"), "traffic.0.percent", 100),
    Field(ROUTE, "traffic[].name", CONVERTED, _route(configurationName="c", name="n"), "traffic.0.tag", "n"),
    Field(ROUTE, "traffic[].tag", SERVED, _route(configurationName="c", tag="n"), "traffic.0.tag", "n"),
    Field(
        ROUTE,
        "traffic[].latestRevision",
        SERVED,
        _route(configurationName="c", latestRevision=True),
        "traffic.0.latestRevision",
        True,
    ),
    Field(
        ROUTE,
        "traffic[].url",
        REFUSED,
        _route(configurationName="c", url="http://x"),
        "",
        "must not set the field(s): spec.traffic[0].url",
    ),
    Field(
        ROUTE, "generation", IGNORED, {"generation": 7, **_route(configurationName="c")}, "generation", None
    ),
)
#: Fields of the status that only v1alpha1 has: (kind, field, what it is).
STATUS = (
    (SERVICE, "domain", "the host of url"),
    (SERVICE, "domainInternal, address.hostname", "the host of address.url"),
    (SERVICE, "traffic[].name", "the tag"),
    (ROUTE, "domain", "the host of url"),
    (ROUTE, "domainInternal, address.hostname", "the host of address.url"),
    (ROUTE, "traffic[].name", "the tag"),
    (REVISION, "imageDigest", "that of the first container"),
    (REVISION, "serviceName", "the name of the revision"),
)
