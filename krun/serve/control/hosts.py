"""The host table from the status of routes: what the ingress sends where.

Owner of HostTable's contents. The table follows status.traffic, not spec: while a new target is not ready, the old traffic
goes on; after a restart of serve it is what it was.
"""

from collections.abc import Callable
from typing import Any

from krun.serve.control import domains
from krun.serve.control.config import Config
from krun.serve.model import meta
from krun.serve.proxy.queue import RevisionQueue
from krun.serve.proxy.routes import HostRoute, HostTable, Target

Object = dict[str, Any]
#: (namespace, revision) -> its queue, or None if there is no such revision.
QueueOf = Callable[[str, str], RevisionQueue | None]


class HostTables:
    """Keeps each route's part of the table, and replaces the whole at `flush`."""

    def __init__(self, table: HostTable, config: Callable[[], Config], queue_of: QueueOf) -> None:
        self.table = table
        self.config = config
        self.queue_of = queue_of
        self._routes: dict[tuple[str, str], dict[str, HostRoute]] = {}
        self._mappings: dict[str, tuple[str, str]] = {}
        self._dirty = False

    def set_route(self, namespace: str, name: str, route: Object | None) -> None:
        """Takes a route's new status.traffic; None: it is gone."""
        found = self._hosts_of(route) if route is not None else {}
        if found != self._routes.get((namespace, name), {}):
            self._routes[namespace, name] = found
            if not found:
                del self._routes[namespace, name]
            self._dirty = True

    def set_mapping(self, name: str, namespace: str, route: str) -> None:
        """The host `name` leads to `route` ("": to nothing)."""
        before = self._mappings.pop(name, None)
        if route:
            self._mappings[name] = (namespace, route)
        if before != self._mappings.get(name):
            self._dirty = True

    def owner(self, host: str) -> str:
        """Returns the Route that has a host by its own name, as namespace/name; "" if none has."""
        return next(("/".join(key) for key, hosts in self._routes.items() if host in hosts), "")

    def flush(self) -> None:
        """Makes the changes visible to requests, all at once."""
        if not self._dirty:
            return
        config = self.config()
        out: dict[str, HostRoute] = {}
        for hosts in self._routes.values():
            out.update(hosts)
        for name, (namespace, route) in self._mappings.items():
            hosts = self._routes.get((namespace, route), {})
            main = hosts.get(domains.internal(config, route, namespace)[0])
            # A mapping may have any name, also one under which a Route of another namespace is reached.
            if main is not None and name not in out:
                out[name] = HostRoute(
                    main.targets, main.tags, False, "external", main.namespace, main.service, main.route
                )
        self.table.replace(out)
        self._dirty = False

    def _hosts_of(self, route: Object) -> dict[str, HostRoute]:
        traffic = (route.get("status") or {}).get("traffic")
        if not traffic:
            return {}
        config = self.config()
        name, namespace = meta.name(route), meta.namespace(route)
        service = meta.labels(route).get(meta.SERVICE_LABEL, "")
        by_tag: dict[str, list[Target]] = {"": []}
        for entry in traffic:
            queue = self.queue_of(namespace, entry.get("revisionName", ""))
            if queue is None:
                continue
            tag, percent = entry.get("tag", ""), int(entry.get("percent", 0))
            if percent:
                by_tag[""].append(Target(queue, percent, tag))
            if tag:
                by_tag.setdefault(tag, []).append(Target(queue, percent or 1, tag))
        heads = {tag: targets[0] for tag, targets in by_tag.items() if tag}
        out: dict[str, HostRoute] = {}
        for tag, targets in by_tag.items():
            hosts = domains.internal(config, name, namespace, tag)
            tags = heads if config.tag_header_routing and not tag else {}
            shares = tuple(targets)
            local = HostRoute(shares, tags, False, "cluster-local", namespace, service, name, tag)
            out.update(dict.fromkeys(hosts, local))
            if domains.is_local(route):
                continue
            outside = [domains.external(config, route, tag)]
            if tag:
                # v1alpha1 of 2019 put the tag before a dot.
                outside.append(f"{tag}.{domains.external(config, route)}")
            public = HostRoute(shares, tags, False, "external", namespace, service, name, tag)
            out.update(dict.fromkeys((host.lower() for host in outside), public))
        # A client may have written the status. One name that is none must not cost the others their hosts.
        return {host: one for host, one in out.items() if host.isascii()}
