"""What the store of a fresh server holds: namespaces, Knative's ConfigMaps, the ingress as a core/v1 Service."""

from typing import Any

from krun.serve.model.kinds import CONFIG_MAP, CORE_SERVICE, NAMESPACE
from krun.serve.settings import NAMESPACE as KNATIVE
from krun.serve.settings import VIEWS
from krun.serve.store.store import Store

Object = dict[str, Any]
NAMESPACES = ("default", KNATIVE, "istio-system")
_GATEWAY = "istio-ingressgateway"


def seed(store: Store, ingress_port: int) -> None:
    """Makes what is missing, and writes the ingress's port.

    Clients of Knative's test suites ask the Service istio-system/istio-ingressgateway for the port behind port 80.
    """
    with store.batch():
        for name in NAMESPACES:
            if store.get(NAMESPACE, "", name) is None:
                labels = {"kubernetes.io/metadata.name": name}
                store.create(
                    NAMESPACE, {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
                )
        for view in VIEWS:
            if store.get(CONFIG_MAP, KNATIVE, view.NAME) is None:
                store.create(CONFIG_MAP, {"metadata": {"name": view.NAME, "namespace": KNATIVE}, "data": {}})
        known = store.get(CORE_SERVICE, "istio-system", _GATEWAY)
        port = {"name": "http2", "port": 80, "nodePort": ingress_port, "protocol": "TCP", "targetPort": 80}
        wanted: Object = {
            "metadata": {
                "name": _GATEWAY,
                "namespace": "istio-system",
                "labels": {"istio": "ingressgateway"},
            },
            "spec": {"type": "NodePort", "ports": [port], "selector": {"istio": "ingressgateway"}},
        }
        if known is None:
            store.create(CORE_SERVICE, wanted)
        else:
            store.update(CORE_SERVICE, {**known, "spec": wanted["spec"]})
