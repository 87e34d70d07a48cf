"""Knative's config-* ConfigMaps, verbatim and live.

Each ConfigMap is a dataclass whose fields name their key.  A value that cannot be read or is out of its bounds refuses the whole map;
the old one stays.  Sources: knative/serving, pkg/autoscaler/config/config.go, pkg/apis/config/{defaults,features}.go, pkg/gc/config.go,
pkg/deployment/config.go; knative/networking, pkg/config/config.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from krun.serve import yamltext
from krun.serve.units import seconds

#: The namespace of the ConfigMaps.
NAMESPACE = "knative-serving"


def _bool(text: str) -> bool:
    """Go's strconv.ParseBool."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f'parsing "{text}": invalid syntax')


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,10}", text, re.A):
        raise ValueError(f'parsing "{text}": invalid syntax')
    return int(text)


def _number(text: str) -> float:
    value = float(text) if "_" not in text and text.isascii() else math.nan
    if not math.isfinite(value):
        raise ValueError(f'parsing "{text}": not a finite number')
    return value


def _or_disabled(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A value that may be "disabled"."""
    return lambda text: None if text.lower() == "disabled" else read(text)


def _key(key: str, default: Any, read: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"key": key, "read": read})


View = TypeVar("View", bound="_Map")


class _Map:
    """What the views have in common."""

    NAME: ClassVar[str] = ""

    @classmethod
    def parse(cls: type[View], data: Mapping[str, str]) -> View:
        """The view of a ConfigMap's data.  Unknown keys and `_example` are ignored.  Raises ValueError."""
        values = {}
        for one in fields(cls):  # type: ignore[arg-type]
            key = one.metadata.get("key")
            if key is None:
                continue
            for name in (key, *one.metadata.get("old", ())):
                if data.get(name):
                    try:
                        values[one.name] = one.metadata["read"](data[name].strip())
                    except ValueError as error:
                        raise ValueError(f"{cls.NAME}: failed to parse {name!r}: {error}") from None
                    break
        view = cls(**values)
        problem = view._problem()
        if problem:
            raise ValueError(f"{cls.NAME}: {problem}")
        return view

    def _problem(self) -> str:
        """The first bound that is broken, or ""."""
        return ""


@dataclass(frozen=True)
class Autoscaler(_Map):
    """config-autoscaler.  Times are seconds."""

    NAME: ClassVar[str] = "config-autoscaler"

    pod_autoscaler_class: str = _key("pod-autoscaler-class", "kpa.autoscaling.knative.dev", str)
    enable_scale_to_zero: bool = _key("enable-scale-to-zero", True, _bool)
    allow_zero_initial_scale: bool = _key("allow-zero-initial-scale", False, _bool)
    max_scale_up_rate: float = _key("max-scale-up-rate", 1000.0, _number)
    max_scale_down_rate: float = _key("max-scale-down-rate", 2.0, _number)
    #: A fraction; the map has percent, or a fraction up to 1.
    target_utilization: float = _key(
        "container-concurrency-target-percentage", 0.7, lambda t: n / 100 if (n := _number(t)) > 1 else n
    )
    target_default: float = _key("container-concurrency-target-default", 100.0, _number)
    rps_target_default: float = _key("requests-per-second-target-default", 200.0, _number)
    target_burst_capacity: float = _key("target-burst-capacity", 211.0, _number)
    panic_window_percentage: float = _key("panic-window-percentage", 10.0, _number)
    panic_threshold_percentage: float = _key("panic-threshold-percentage", 200.0, _number)
    activator_capacity: float = _key("activator-capacity", 100.0, _number)
    initial_scale: int = _key("initial-scale", 1, _integer)
    min_scale: int = _key("min-scale", 0, _integer)
    max_scale: int = _key("max-scale", 0, _integer)
    max_scale_limit: int = _key("max-scale-limit", 0, _integer)
    stable_window: float = _key("stable-window", 60.0, seconds)
    scale_down_delay: float = _key("scale-down-delay", 0.0, seconds)
    scale_to_zero_grace_period: float = _key("scale-to-zero-grace-period", 30.0, seconds)
    retention_period: float = _key("scale-to-zero-pod-retention-period", 0.0, seconds)

    def _problem(self) -> str:
        least = 1 if self.max_scale_limit > 0 else 0
        checks = {
            "scale-to-zero-grace-period must be positive": self.scale_to_zero_grace_period > 0,
            "scale-down-delay must not be negative and have whole seconds": self.scale_down_delay >= 0
            and self.scale_down_delay % 1 == 0,
            "scale-to-zero-pod-retention-period cannot be negative": self.retention_period >= 0,
            "target-burst-capacity must be non-negative, or -1 for unlimited": self.target_burst_capacity >= 0
            or self.target_burst_capacity == -1,
            "container-concurrency-target-percentage is outside of (0, 100]": 0
            < self.target_utilization
            <= 1,
            "the target concurrency cannot be less than 0.01": self.target_utilization * self.target_default
            >= 0.01,
            "requests-per-second-target-default must be at least 0.01": self.rps_target_default >= 0.01,
            "activator-capacity must be at least 1": self.activator_capacity >= 1,
            "max-scale-up-rate must be greater than 1.0": self.max_scale_up_rate > 1,
            "max-scale-down-rate must be greater than 1.0": self.max_scale_down_rate > 1,
            "stable-window must be in [6s; 1h] and have whole seconds": 6 <= self.stable_window <= 3600
            and self.stable_window % 1 == 0,
            "panic-window-percentage must be in [1, 100]": 1 <= self.panic_window_percentage <= 100,
            "panic-threshold-percentage must be in [110, 1000]": 110
            <= self.panic_threshold_percentage
            <= 1000,
            "initial-scale must be at least 1 (0 where allow-zero-initial-scale is true)": self.initial_scale
            >= (0 if self.allow_zero_initial_scale else 1),
            "min-scale must be at least 0": self.min_scale >= 0,
            "max-scale-limit must be at least 0": self.max_scale_limit >= 0,
            f"max-scale must be at least {least} and at most max-scale-limit": self.max_scale >= least
            and (not self.max_scale_limit or self.max_scale <= self.max_scale_limit),
        }
        return next((text for text, holds in checks.items() if not holds), "")


@dataclass(frozen=True)
class Defaults(_Map):
    """config-defaults.  Times are seconds; resources are quantities, "" for none."""

    NAME: ClassVar[str] = "config-defaults"

    timeout: int = _key("revision-timeout-seconds", 300, _integer)
    max_timeout: int = _key("max-revision-timeout-seconds", 600, _integer)
    response_start_timeout: int = _key("revision-response-start-timeout-seconds", 300, _integer)
    idle_timeout: int = _key("revision-idle-timeout-seconds", 0, _integer)
    cpu_request: str = _key("revision-cpu-request", "", str)
    memory_request: str = _key("revision-memory-request", "", str)
    ephemeral_storage_request: str = _key("revision-ephemeral-storage-request", "", str)
    cpu_limit: str = _key("revision-cpu-limit", "", str)
    memory_limit: str = _key("revision-memory-limit", "", str)
    ephemeral_storage_limit: str = _key("revision-ephemeral-storage-limit", "", str)
    container_name: str = _key("container-name-template", "user-container", str)
    init_container_name: str = _key("init-container-name-template", "init-container", str)
    container_concurrency: int = _key("container-concurrency", 0, _integer)
    container_concurrency_max: int = _key("container-concurrency-max-limit", 1000, _integer)
    allow_container_concurrency_zero: bool = _key("allow-container-concurrency-zero", True, _bool)
    #: None: "default", left to the cluster.
    enable_service_links: bool | None = _key(
        "enable-service-links", False, lambda t: None if t.lower() == "default" else _bool(t)
    )

    def _problem(self) -> str:
        if self.timeout > self.max_timeout:
            return f"revision-timeout-seconds ({self.timeout}) cannot be greater than max-revision-timeout-seconds ({self.max_timeout})"
        if self.timeout > 0 and self.response_start_timeout > max(self.timeout, 300):
            return (
                f"revision-response-start-timeout-seconds ({self.response_start_timeout}) cannot be greater than "
                f"revision-timeout-seconds ({self.timeout})"
            )
        if self.idle_timeout > self.timeout:
            return f"revision-idle-timeout-seconds ({self.idle_timeout}) cannot be greater than revision-timeout-seconds ({self.timeout})"
        if self.container_concurrency_max < 1:
            return "container-concurrency-max-limit cannot be less than 1"
        if not 0 <= self.container_concurrency <= self.container_concurrency_max:
            return f"container-concurrency must be in [0, {self.container_concurrency_max}]"
        if not self.container_concurrency and not self.allow_container_concurrency_zero:
            return "container-concurrency cannot be 0 when allow-container-concurrency-zero is false"
        return ""


@dataclass(frozen=True)
class Features(_Map):
    """config-features: flags by their key; Enabled, Allowed or Disabled."""

    NAME: ClassVar[str] = "config-features"

    flags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Features:
        """The flags; a value that is none of the words is as if it were not there, as in Knative."""
        known = {
            "enabled": "Enabled",
            "allowed": "Allowed",
            "disabled": "Disabled",
            "allowrootbounded": "AllowRootBounded",
        }
        return cls({k: known[v.strip().lower()] for k, v in data.items() if v.strip().lower() in known})


@dataclass(frozen=True)
class Gc(_Map):
    """config-gc; times are seconds, None: the rule is off."""

    NAME: ClassVar[str] = "config-gc"

    since_create: float | None = _key("retain-since-create-time", 48 * 3600.0, _or_disabled(seconds))
    since_last_active: float | None = _key(
        "retain-since-last-active-time", 15 * 3600.0, _or_disabled(seconds)
    )
    least: int = _key("min-non-active-revisions", 20, _integer)
    most: int | None = _key("max-non-active-revisions", 1000, _or_disabled(_integer))

    def _problem(self) -> str:
        if any(t is not None and t < 0 for t in (self.since_create, self.since_last_active)):
            return "the times must not be negative"
        if self.least < 0 or (self.most is not None and self.most < self.least):
            return "min-non-active-revisions must be at least 0 and at most max-non-active-revisions"
        return ""


#: A field of a Go template of config-network.
TEMPLATE_FIELD = re.compile(r"\{\{-?\s*\.(Name|Namespace|Domain|Tag)\s*-?\}\}")
_HOST = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9.]{0,198}[A-Za-z0-9])?")


def _template_problem(text: str, names: tuple[str, ...]) -> str:
    """Returns why a Go template makes no host, "" if it does. One with other actions than fields is not looked at: it is not used."""
    wrong = next((name for name in TEMPLATE_FIELD.findall(text) if name not in names), "")
    if wrong:
        return f"can't evaluate field {wrong}"
    rest = TEMPLATE_FIELD.sub("x", text)
    return "" if "{" in rest or "}" in rest or _HOST.fullmatch(rest) else "makes no host"


@dataclass(frozen=True)
class Network(_Map):
    """config-network."""

    NAME: ClassVar[str] = "config-network"

    #: Go templates.
    domain_template: str = _key("domain-template", "{{.Name}}.{{.Namespace}}.{{.Domain}}", str)
    tag_template: str = _key("tag-template", "{{.Tag}}-{{.Name}}", str)
    #: "enabled" or "redirected".
    http_protocol: str = _key("http-protocol", "enabled", lambda t: t.lower())
    #: "": https where the ingress has a certificate, else http.
    default_scheme: str = _key("default-external-scheme", "", str)
    #: Seconds.
    rollout_duration: float = _key(
        "rollout-duration", 0.0, lambda t: seconds(t if t[-1:].isalpha() else t + "s")
    )
    autocreate_claims: bool = _key("autocreate-cluster-domain-claims", False, _bool)

    def _problem(self) -> str:
        for key, text, names in (
            ("domain-template", self.domain_template, ("Name", "Namespace", "Domain")),
            ("tag-template", self.tag_template, ("Name", "Tag")),
        ):
            if problem := _template_problem(text, names):
                return f"{key} {text[:80]!r} {problem}"
        if self.http_protocol not in ("enabled", "redirected", "disabled"):
            return f"http-protocol {self.http_protocol} is not supported"
        if self.default_scheme not in ("", "http", "https"):
            return f"default-external-scheme {self.default_scheme} is not supported"
        return "rollout-duration cannot be negative" if self.rollout_duration < 0 else ""


@dataclass(frozen=True)
class Domain(_Map):
    """config-domain: (domain, label selector), the default (empty selector) last."""

    NAME: ClassVar[str] = "config-domain"

    domains: tuple[tuple[str, Mapping[str, str]], ...] = ()

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Domain:
        """The domains; of several that fit the one with the most labels is meant to win, so they stand first."""
        found = []
        for domain, text in data.items():
            if domain == "_example":
                continue
            try:
                body = yamltext.load(text.encode("utf-8", "replace")) if text.strip() else {}
            except ValueError as error:
                raise ValueError(f"{cls.NAME}: failed to parse {domain!r}: {error}") from None
            selector = body.get("selector") if isinstance(body, dict) else None
            if not isinstance(body, dict) or not isinstance(selector or {}, dict):
                raise ValueError(f"{cls.NAME}: failed to parse {domain!r}: not a selector")
            found.append((domain, {str(k): str(v) for k, v in (selector or {}).items()}))
        return cls(tuple(sorted(found, key=lambda one: (-len(one[1]), one[0]))))

    def lookup(self, labels: Mapping[str, str], default: str) -> str:
        """The domain of a route with `labels`, `default` if none fits."""
        for domain, selector in self.domains:
            if all(labels.get(k) == v for k, v in selector.items()):
                return domain
        return default


@dataclass(frozen=True)
class Deployment(_Map):
    """config-deployment; times are seconds.  Settings of the queue sidecar have no meaning here."""

    NAME: ClassVar[str] = "config-deployment"

    progress_deadline: float = _key("progress-deadline", 600.0, seconds)
    digest_timeout: float = _key("digest-resolution-timeout", 10.0, seconds)
    skip_digests: frozenset[str] = _key(
        "registries-skipping-tag-resolving",
        frozenset(("kind.local", "ko.local", "dev.local")),
        lambda t: frozenset(part.strip() for part in t.split(",") if part.strip()),
    )

    def _problem(self) -> str:
        if self.progress_deadline <= 0 or self.progress_deadline % 1:
            return "progress-deadline must be positive and have whole seconds"
        return (
            "digest-resolution-timeout cannot be a non-positive duration" if self.digest_timeout <= 0 else ""
        )


@dataclass(frozen=True)
class Images(_Map):
    """config-images, krun serve's own: the kubelet's settings of its image collection, with their names and defaults.

    Times are seconds. Source: kubernetes, pkg/kubelet/apis/config/v1beta1/defaults.go and validation.go.
    """

    NAME: ClassVar[str] = "config-images"

    least_age: float = _key("imageMinimumGCAge", 120.0, seconds)
    most_age: float = _key("imageMaximumGCAge", 0.0, seconds)
    high: int = _key("imageGCHighThresholdPercent", 85, _integer)
    low: int = _key("imageGCLowThresholdPercent", 80, _integer)

    def _problem(self) -> str:
        checks = {
            f"imageGCHighThresholdPercent {self.high} must be between 0 and 100, inclusive": 0
            <= self.high
            <= 100,
            f"imageGCLowThresholdPercent {self.low} must be between 0 and 100, inclusive": 0
            <= self.low
            <= 100,
            f"imageGCLowThresholdPercent {self.low} must be less than imageGCHighThresholdPercent {self.high}": self.low
            < self.high,
            "imageMinimumGCAge and imageMaximumGCAge must not be negative": min(self.least_age, self.most_age)
            >= 0,
            "imageMaximumGCAge must be greater than imageMinimumGCAge": not self.most_age
            or self.most_age > self.least_age,
        }
        return next((text for text, good in checks.items() if not good), "")


VIEWS: tuple[type[_Map], ...] = (Autoscaler, Defaults, Features, Gc, Network, Domain, Deployment, Images)


class Configs:
    """The current views.  `on_change` is called with the name of each map that has changed."""

    def __init__(self, on_change: Callable[[str], None] | None = None) -> None:
        self.on_change = on_change
        self._views: dict[str, _Map] = {view.NAME: view.parse({}) for view in VIEWS}
        self._types = {view.NAME: view for view in VIEWS}
        self.autoscaler, self.defaults, self.features = Autoscaler(), Defaults(), Features()
        self.gc, self.network, self.domain, self.deployment = Gc(), Network(), Domain(), Deployment()
        self.images = Images()

    def check(self, name: str, data: Mapping[str, str]) -> None:
        """Raises ValueError if a ConfigMap of this name must not have `data`; for admission."""
        if name in self._types:
            self._types[name].parse(data)

    def apply(self, name: str, data: Mapping[str, str] | None) -> bool:
        """Takes a ConfigMap's data, None: it was deleted.  Returns whether something changed.  Raises ValueError; the old view stays."""
        view = self._types.get(name)
        if view is None:
            return False
        new = view.parse(data or {})
        if new == self._views[name]:
            return False
        self._views[name] = new
        setattr(self, name.removeprefix("config-"), new)
        if self.on_change is not None:
            self.on_change(name)
        return True
