"""Pods: the projection of instances into core/v1 objects, for clients that list pods, read logs or delete one.

The names are those of a Deployment's pods (REVISION-deployment-HASH-RANDOM), because upstream's tests look for them.
"""

import hashlib
import secrets
from typing import Any

from krun.serve.model import meta, names
from krun.serve.model.kinds import POD, REVISION
from krun.serve.model.values import now
from krun.serve.store.store import Store

Object = dict[str, Any]
#: A pod's object never waits for the disk: it is made anew from its instance.
_DURABLE = False
#: This machine, as Pods and Events name it.
NODE_NAME = "krun"


def new_name(revision: Object) -> str:
    """Returns the name of a new instance: unique on this machine, a label, begins with a letter."""
    place = f"{meta.namespace(revision)}/{meta.uid(revision)}"
    digest = hashlib.sha256(place.encode()).hexdigest()[:10]
    return names.child(meta.name(revision), f"-deployment-{digest}-{secrets.token_hex(3)}")


def serving_container(spec: Object) -> Object:
    """Returns the container that gets the requests: the one with a port, or the only one."""
    containers: list[Object] = spec["containers"]
    return next((one for one in containers if one.get("ports")), containers[0])


def port_of(spec: Object) -> tuple[int, str]:
    """Returns the port of the program and its protocol, http1 or h2c."""
    ports = serving_container(spec).get("ports") or [{}]
    return ports[0].get("containerPort") or 8080, "h2c" if ports[0].get("name") == "h2c" else "http1"


def create(store: Store, revision: Object, name: str) -> None:
    """Makes the Pod of an instance that is about to start."""
    labels = {
        **meta.labels(revision),
        meta.REVISION_LABEL: meta.name(revision),
        meta.REVISION_UID: meta.uid(revision),
        "app": meta.name(revision),
    }
    spec = revision["spec"]
    pod: Object = {
        "metadata": {
            "name": name,
            "namespace": meta.namespace(revision),
            "labels": labels,
            "annotations": dict(meta.annotations(revision)),
            "ownerReferences": [meta.owner_reference(REVISION, revision)],
        },
        "spec": {
            "containers": spec["containers"],
            "volumes": spec.get("volumes") or [],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": spec.get("timeoutSeconds", 300),
            "nodeName": NODE_NAME,
        },
        "status": {"phase": "Pending", "startTime": now()},
    }
    with store.batch(_DURABLE):
        store.create(POD, pod)


def update(
    store: Store,
    namespace: str,
    name: str,
    statuses: list[Object],
    ready: bool,
    phase: str,
    address: str = "127.0.0.1",
    evicted: str = "",
) -> None:
    """Writes the status of an instance's Pod, if it is still there. `address`: the instance's own; evicted: why it is, or ""."""
    pod = store.get(POD, namespace, name)
    if pod is None:
        return
    value = "True" if ready else "False"
    status = {
        **(pod.get("status") or {}),
        "phase": phase,
        "containerStatuses": statuses,
        "podIP": address,
        "hostIP": "127.0.0.1",
        "conditions": [
            {"type": kind, "status": "True" if kind in ("Initialized", "PodScheduled") else value}
            for kind in ("Initialized", "PodScheduled", "ContainersReady", "Ready")
        ],
    }
    if evicted:
        status |= {"phase": "Failed", "reason": "Evicted", "message": evicted}
    if status != pod.get("status"):
        with store.batch(_DURABLE):
            store.update(POD, {**pod, "status": status})


def container_status(
    container: Object, restarts: int, ready: bool, digest: str, last: Object | None, waiting: str
) -> Object:
    """Returns a containerStatus. `last` is the terminated state of the run before, `waiting` why it does not run ("": it does)."""
    out: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": digest,
        "restartCount": restarts,
        "ready": ready,
        "started": not waiting,
        "state": {"waiting": {"reason": waiting}} if waiting else {"running": {}},
        "lastState": {"terminated": last} if last else {},
    }
    return out


def remove(store: Store, namespace: str, name: str) -> None:
    """Removes the Pod of an instance that has ended."""
    if store.get(POD, namespace, name) is not None:
        with store.batch(_DURABLE):
            store.delete(POD, namespace, name)
