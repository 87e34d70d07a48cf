"""Names of hosts: a Route's, its tags', inside and outside; URLs.

Source: knative/serving pkg/reconciler/route/domains/domains.go; templates of config-network.
"""

from typing import Any

from krun.serve.control.config import Config
from krun.serve.model import meta

Object = dict[str, Any]


def is_local(route: Object) -> bool:
    """Whether a route is served inside only (label networking.knative.dev/visibility)."""
    return meta.labels(route).get(meta.VISIBILITY) == meta.CLUSTER_LOCAL


def tagged(config: Config, name: str, tag: str) -> str:
    """Returns the first part of a tag's host: tag-name; the name itself without a tag."""
    return config.tag_template.format(tag=tag, name=name) if tag else name


def internal(config: Config, name: str, namespace: str, tag: str = "") -> list[str]:
    """Returns the hosts under which other services reach a route, the full one first."""
    short = f"{tagged(config, name, tag)}.{namespace}"
    return [f"{short}.svc.{config.cluster_domain}", f"{short}.svc", short]


def external(config: Config, route: Object, tag: str = "") -> str:
    """Returns the host under which a route is reached from outside. config-domain chooses the domain by the route's labels."""
    return config.domain_template.format(
        name=tagged(config, meta.name(route), tag),
        namespace=meta.namespace(route),
        domain=config.domains.lookup(meta.labels(route), config.domain),
    )


def url(config: Config, route: Object, tag: str = "") -> str:
    """Returns the URL of a route or of one of its tags."""
    name, namespace = meta.name(route), meta.namespace(route)
    if is_local(route):
        return "http://" + internal(config, name, namespace, tag)[0]
    port = f":{config.port}" if config.port else ""
    return f"{config.scheme}://{external(config, route, tag)}{port}"
