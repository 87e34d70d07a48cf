"""THE table of kinds that the API serves: one row per kind. The API's discovery, paths, tables of kubectl and the store
are made from it.

Sources: knative/serving config/core/300-resources (names, columns, categories); Kubernetes API reference v1.32 (core/v1).
"""

from dataclasses import dataclass

SERVING = "serving.knative.dev"
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Column:
    """A column of kubectl's table: title, type of the cell, dotted path or @condition path of the value.

    `path` is a dotted path below the object; "@Ready.status" is the field `status` of the condition `Ready`; "@age" the
    creation time; "@data" the number of entries of `data`; other values with @ are computed by serve/api/table.py.
    """

    title: str
    type: str
    path: str


@dataclass(frozen=True)
class Kind:
    """A kind: its names, whether a namespace holds it, what may be done with it.

    `group` is "" for core/v1. `versions` lists the served versions, the storage version first. `schema` is the name in
    model/data/knative.json ("" for kinds whose fields are not checked). `generation`: metadata.generation counts the
    changes of `spec`, and status is a subresource.
    """

    kind: str
    plural: str
    singular: str
    group: str = SERVING
    versions: tuple[str, ...] = ("v1",)
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    schema: str = ""
    generation: bool = True
    columns: tuple[Column, ...] = ()

    @property
    def version(self) -> str:
        """The storage version."""
        return self.versions[0]

    def api_version(self, version: str = "") -> str:
        """Returns the apiVersion of objects of this kind, in the storage version unless `version` is given."""
        return f"{self.group}/{version or self.version}" if self.group else version or self.version

    @property
    def resource(self) -> str:
        """The name that Status messages use: plural.group, or the plural alone for core/v1."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_READY = (Column("Ready", "string", "@Ready.status"), Column("Reason", "string", "@Ready.reason"))
_LATEST = (
    Column("LatestCreated", "string", "status.latestCreatedRevisionName"),
    Column("LatestReady", "string", "status.latestReadyRevisionName"),
)
_AGE = Column("Age", "date", "@age")
_KNATIVE = ("all", "knative", "serving")

SERVICE = Kind(
    "Service",
    "services",
    "service",
    versions=("v1", "v1alpha1"),
    short=("kservice", "ksvc"),
    categories=_KNATIVE,
    schema="services",
    columns=(Column("URL", "string", "status.url"), *_LATEST, *_READY),
)
CONFIGURATION = Kind(
    "Configuration",
    "configurations",
    "configuration",
    versions=("v1", "v1alpha1"),
    short=("config", "cfg"),
    categories=_KNATIVE,
    schema="configurations",
    columns=(*_LATEST, *_READY),
)
REVISION = Kind(
    "Revision",
    "revisions",
    "revision",
    versions=("v1", "v1alpha1"),
    short=("rev",),
    categories=_KNATIVE,
    schema="revisions",
    columns=(
        Column("Config Name", "string", "metadata.labels.serving\\.knative\\.dev/configuration"),
        Column("Generation", "string", "metadata.labels.serving\\.knative\\.dev/configurationGeneration"),
        *_READY,
        Column("Actual Replicas", "integer", "status.actualReplicas"),
        Column("Desired Replicas", "integer", "status.desiredReplicas"),
    ),
)
ROUTE = Kind(
    "Route",
    "routes",
    "route",
    versions=("v1", "v1alpha1"),
    short=("rt",),
    categories=_KNATIVE,
    schema="routes",
    columns=(Column("URL", "string", "status.url"), *_READY),
)
DOMAIN_MAPPING = Kind(
    "DomainMapping",
    "domainmappings",
    "domainmapping",
    versions=("v1beta1",),
    short=("dm",),
    categories=_KNATIVE,
    schema="domainmappings",
    columns=(Column("URL", "string", "status.url"), *_READY),
)
CONFIG_MAP = Kind(
    "ConfigMap",
    "configmaps",
    "configmap",
    group="",
    short=("cm",),
    generation=False,
    columns=(Column("Name", "string", "metadata.name"), Column("Data", "integer", "@data"), _AGE),
)
SECRET = Kind(
    "Secret",
    "secrets",
    "secret",
    group="",
    generation=False,
    columns=(
        Column("Name", "string", "metadata.name"),
        Column("Type", "string", "type"),
        Column("Data", "integer", "@data"),
        _AGE,
    ),
)
NAMESPACE = Kind(
    "Namespace",
    "namespaces",
    "namespace",
    group="",
    short=("ns",),
    namespaced=False,
    generation=False,
    columns=(
        Column("Name", "string", "metadata.name"),
        Column("Status", "string", "status.phase"),
        _AGE,
    ),
)
CORE_SERVICE = Kind(
    "Service",
    "services",
    "service",
    group="",
    short=("svc",),
    categories=("all",),
    verbs=("get", "list", "watch"),
    generation=False,
    columns=(
        Column("Name", "string", "metadata.name"),
        Column("Type", "string", "spec.type"),
        Column("External-Name", "string", "spec.externalName"),
        Column("Port(s)", "string", "@ports"),
        _AGE,
    ),
)
POD = Kind(
    "Pod",
    "pods",
    "pod",
    group="",
    short=("po",),
    categories=("all",),
    verbs=("delete", "get", "list", "watch"),
    generation=False,
    columns=(
        Column("Name", "string", "metadata.name"),
        Column("Ready", "string", "@containers"),
        Column("Status", "string", "status.phase"),
        Column("Restarts", "integer", "@restarts"),
        _AGE,
    ),
)
EVENT = Kind(
    "Event",
    "events",
    "event",
    group="",
    short=("ev",),
    verbs=("get", "list", "watch"),
    generation=False,
    columns=(
        Column("Last Seen", "date", "@seen"),
        Column("Type", "string", "type"),
        Column("Reason", "string", "reason"),
        Column("Object", "string", "@involved"),
        Column("Message", "string", "message"),
    ),
)

KINDS: tuple[Kind, ...] = (
    SERVICE,
    CONFIGURATION,
    REVISION,
    ROUTE,
    DOMAIN_MAPPING,
    CONFIG_MAP,
    SECRET,
    NAMESPACE,
    CORE_SERVICE,
    POD,
    EVENT,
)
_BY_PATH = {(kind.group, version, kind.plural): kind for kind in KINDS for version in kind.versions}
_BY_RESOURCE = {(kind.group, kind.plural): kind for kind in KINDS}


def find(group: str, version: str, plural: str) -> Kind | None:
    """Returns the kind that the API serves at /apis/`group`/`version`/.../`plural` ("" = core), or None."""
    return _BY_PATH.get((group, version, plural))


def by_resource(group: str, plural: str) -> Kind:
    """Returns the kind of a row of the store. Errors: KeyError, the store's file is of another version."""
    return _BY_RESOURCE[group, plural]


def by_object(kind: str, group: str) -> Kind | None:
    """Returns the kind named `kind` in `group` (an ownerReference has no plural), or None."""
    return next((row for row in KINDS if row.kind == kind and row.group == group), None)
