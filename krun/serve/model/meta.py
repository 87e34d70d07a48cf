"""Metadata of objects: keys of labels and annotations, owners, small readers.

Source of the keys: knative/serving pkg/apis/serving/register.go, pkg/apis/autoscaling/register.go;
knative/networking pkg/apis/networking/register.go.
"""

from collections.abc import Mapping
from typing import Any

from krun.serve.model.kinds import SERVING, Kind

Object = dict[str, Any]

CREATOR = f"{SERVING}/creator"
MODIFIER = f"{SERVING}/lastModifier"
SERVICE_LABEL = f"{SERVING}/service"
SERVICE_UID = f"{SERVING}/serviceUID"
CONFIGURATION_LABEL = f"{SERVING}/configuration"
CONFIGURATION_UID = f"{SERVING}/configurationUID"
GENERATION_LABEL = f"{SERVING}/configurationGeneration"
REVISION_LABEL = f"{SERVING}/revision"
REVISION_UID = f"{SERVING}/revisionUID"
ROUTE_LABEL = f"{SERVING}/route"
ROUTES = f"{SERVING}/routes"
ROUTING_STATE = f"{SERVING}/routingState"
ROUTING_STATE_MODIFIED = f"{SERVING}/routingStateModified"
NO_GC = f"{SERVING}/no-gc"
PROGRESS_DEADLINE = (f"{SERVING}/progress-deadline", f"{SERVING}/progressDeadline")
ROLLOUT_DURATION = (f"{SERVING}/rollout-duration", f"{SERVING}/rolloutDuration")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: Annotations of the server's own: clients neither see nor set them, children do not inherit them.
HIDDEN = "internal.serve.krun.dev/"
VISIBILITY = "networking.knative.dev/visibility"
CLUSTER_LOCAL = "cluster-local"


def meta(obj: Object) -> Object:
    """Returns obj.metadata, made if it is missing."""
    found: Object = obj.setdefault("metadata", {})
    return found


def name(obj: Object) -> str:
    """Returns obj.metadata.name."""
    return str(obj.get("metadata", {}).get("name", ""))


def namespace(obj: Object) -> str:
    """Returns obj.metadata.namespace, "" for cluster kinds."""
    return str(obj.get("metadata", {}).get("namespace", ""))


def uid(obj: Object) -> str:
    """Returns obj.metadata.uid."""
    return str(obj.get("metadata", {}).get("uid", ""))


def generation(obj: Object) -> int:
    """Returns obj.metadata.generation."""
    return int(obj.get("metadata", {}).get("generation", 0))


def labels(obj: Object) -> dict[str, str]:
    """Returns obj.metadata.labels; an empty dict if there are none (not stored)."""
    found: dict[str, str] = obj.get("metadata", {}).get("labels") or {}
    return found


def annotations(obj: Object) -> dict[str, str]:
    """Returns obj.metadata.annotations; an empty dict if there are none (not stored)."""
    found: dict[str, str] = obj.get("metadata", {}).get("annotations") or {}
    return found


def first(values: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, str] | None:
    """Returns (key, value) of the first of `keys` (a key and its older spellings) that `values` has, or None."""
    for key in keys:
        if key in values:
            return key, values[key]
    return None


def owner_reference(kind: Kind, owner: Object) -> Object:
    """Returns the controller reference to `owner`, as kmeta.NewControllerRef makes it."""
    return {
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller(obj: Object) -> Object | None:
    """Returns the owner reference with controller: true, or None."""
    for reference in obj.get("metadata", {}).get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def controlled_by(obj: Object, owner: Object) -> bool:
    """Whether `owner` is the controller of `obj`."""
    reference = controller(obj)
    return reference is not None and reference.get("uid") == uid(owner)


def names_of(value: str | None) -> set[str]:
    """Returns the names of a comma-separated annotation (serving.knative.dev/routes)."""
    return set(value.split(",")) if value else set()


def visible(obj: Object) -> Object:
    """Returns `obj` as clients see it: without the server's own annotations. `obj` is not changed."""
    notes = annotations(obj)
    if not any(key.startswith(HIDDEN) for key in notes):
        return obj
    rest = {key: item for key, item in notes.items() if not key.startswith(HIDDEN)}
    data = {key: item for key, item in obj["metadata"].items() if key != "annotations"}
    if rest:
        data["annotations"] = rest
    return {**obj, "metadata": data}


def keep_hidden(obj: Object, old: Object | None) -> None:
    """Replaces the server's own annotations of `obj`, which a client sent, by those of the stored object `old`."""
    notes = annotations(obj)
    kept = {key: item for key, item in notes.items() if not key.startswith(HIDDEN)}
    if old is not None:
        kept |= {key: item for key, item in annotations(old).items() if key.startswith(HIDDEN)}
    if kept:
        meta(obj)["annotations"] = kept
    else:
        meta(obj).pop("annotations", None)
