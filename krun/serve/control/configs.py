"""Knative's ConfigMaps in the namespace knative-serving, as the control plane reads them: settings.Configs to Config.

A ConfigMap that cannot be read is refused when a client writes it (`check`), and keeps the last good values if it is in the
store already.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from krun.serve.control.config import Config
from krun.serve.model import meta
from krun.serve.model.kinds import CONFIG_MAP, Kind
from krun.serve.model.options import Options
from krun.serve.model.status import bad_request
from krun.serve.settings import NAMESPACE, TEMPLATE_FIELD, VIEWS, Configs
from krun.serve.store.store import Store
from krun.serve.store.watch import Event

Object = dict[str, Any]


def template(text: str, default: str) -> str:
    """Returns a Go template with .Name, .Namespace, .Domain and .Tag as a format; `default` if it has anything else."""
    rest = TEMPLATE_FIELD.sub("", text)
    if "{" in rest or "}" in rest:
        return default
    return TEMPLATE_FIELD.sub(lambda found: "{" + found.group(1).lower() + "}", text)


class LiveConfig:
    """The configuration of the moment. `on_change` is called after a ConfigMap has changed it."""

    def __init__(self, store: Store, base: Config, report: Callable[[str], None]) -> None:
        self.base = base
        self.report = report
        self.configs = Configs()
        self.on_change: Callable[[], None] = lambda: None
        for view in VIEWS:
            self._apply(view.NAME, store.get(CONFIG_MAP, NAMESPACE, view.NAME))
        self.config = self._make()
        store.subscribe(self._event)

    def _apply(self, name: str, obj: Object | None) -> bool:
        try:
            return self.configs.apply(name, (obj or {}).get("data") or {})
        except ValueError as error:
            self.report(f"read ConfigMap {NAMESPACE}/{name}: {error}; the last good values stay")
            return False

    def _event(self, event: Event) -> None:
        if event.kind is not CONFIG_MAP or meta.namespace(event.obj) != NAMESPACE:
            return
        obj = None if event.type == "DELETED" else event.obj
        if self._apply(meta.name(event.obj), obj):
            self.config = self._make()
            self.on_change()

    def check(self, kind: Kind, obj: Object) -> None:
        """Refuses a ConfigMap that could not be read. Errors: ApiError 400."""
        if kind is not CONFIG_MAP or meta.namespace(obj) != NAMESPACE:
            return
        try:
            self.configs.check(meta.name(obj), obj.get("data") or {})
        except ValueError as error:
            raise bad_request(
                'admission webhook "config.webhook.serving.knative.dev" denied the request: validation failed: '
                + str(error)
            ) from None

    def _make(self) -> Config:
        scaler, defaults, network, gc = (
            self.configs.autoscaler,
            self.configs.defaults,
            self.configs.network,
            self.configs.gc,
        )
        options = Options(
            features=self.configs.features.flags,
            timeout=defaults.timeout,
            max_timeout=defaults.max_timeout,
            response_start_timeout=defaults.response_start_timeout,
            idle_timeout=defaults.idle_timeout,
            container_name=defaults.container_name,
            init_container_name=defaults.init_container_name,
            concurrency=defaults.container_concurrency,
            concurrency_max=defaults.container_concurrency_max,
            allow_concurrency_zero=defaults.allow_container_concurrency_zero,
            enable_service_links=defaults.enable_service_links,
            requests={
                "cpu": defaults.cpu_request or None,
                "memory": defaults.memory_request or None,
                "ephemeral-storage": defaults.ephemeral_storage_request or None,
            },
            limits={
                "cpu": defaults.cpu_limit or None,
                "memory": defaults.memory_limit or None,
                "ephemeral-storage": defaults.ephemeral_storage_limit or None,
            },
            autoscaler_class=scaler.pod_autoscaler_class,
            max_scale_limit=scaler.max_scale_limit,
            allow_zero_initial_scale=scaler.allow_zero_initial_scale,
        )
        base = self.base
        return replace(
            base,
            options=options,
            domains=self.configs.domain,
            scheme=network.default_scheme or base.scheme,
            domain_template=template(network.domain_template, base.domain_template),
            tag_template=template(network.tag_template, base.tag_template),
            rollout_duration=network.rollout_duration,
            tag_header_routing=options.enabled("tag-header-based-routing"),
            progress_deadline=self.configs.deployment.progress_deadline,
            gc_since_create=gc.since_create,
            gc_since_active=gc.since_last_active,
            gc_min=gc.least,
            gc_max=gc.most,
            stable_window=scaler.stable_window,
            panic_window_percentage=scaler.panic_window_percentage,
            panic_threshold_percentage=scaler.panic_threshold_percentage,
            target_percentage=scaler.target_utilization * 100,
            target_default=scaler.target_default,
            rps_default=scaler.rps_target_default,
            burst_capacity=scaler.target_burst_capacity,
            max_scale_up_rate=scaler.max_scale_up_rate,
            max_scale_down_rate=scaler.max_scale_down_rate,
            scale_down_delay=scaler.scale_down_delay,
            retention=scaler.retention_period,
            enable_scale_to_zero=scaler.enable_scale_to_zero,
            min_scale=scaler.min_scale,
            max_scale=scaler.max_scale,
            max_scale_limit=scaler.max_scale_limit,
            initial_scale=scaler.initial_scale,
        )
