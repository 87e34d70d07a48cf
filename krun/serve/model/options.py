"""What of Knative's configuration the model needs: feature flags, defaults, bounds. The values are Knative's own defaults.

Sources: knative/serving pkg/apis/config/features.go and defaults.go, pkg/autoscaler/config/config.go. The settings layer
fills these from the ConfigMaps config-features, config-defaults and config-autoscaler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Keys of config-features with another default than Disabled.
FEATURE_DEFAULTS = {"multi-container": "Enabled", "kubernetes.podspec-volumes-emptydir": "Enabled"}


@dataclass(frozen=True)
class Options:
    """Feature flags by their key in config-features (Enabled, Disabled, Allowed), defaults and bounds of fields.

    Times are seconds; resources are quantities, None = no default. `max_scale_limit` 0 = none.
    """

    features: Mapping[str, str] = field(default_factory=dict)
    timeout: int = 300
    max_timeout: int = 600
    response_start_timeout: int = 300
    idle_timeout: int = 0
    container_name: str = "user-container"
    init_container_name: str = "init-container"
    concurrency: int = 0
    concurrency_max: int = 1000
    allow_concurrency_zero: bool = True
    enable_service_links: bool | None = False
    requests: Mapping[str, str | None] = field(default_factory=dict)
    limits: Mapping[str, str | None] = field(default_factory=dict)
    autoscaler_class: str = "kpa.autoscaling.knative.dev"
    max_scale_limit: int = 0
    allow_zero_initial_scale: bool = False

    def feature(self, key: str) -> str:
        """Returns Enabled, Disabled or Allowed (or AllowRootBounded) of a key of config-features."""
        found = self.features.get(key) or FEATURE_DEFAULTS.get(key, "Disabled")
        return found[:1].upper() + found[1:]

    def enabled(self, key: str) -> bool:
        """Whether the flag is Enabled."""
        return self.feature(key) == "Enabled"

    def off(self, key: str) -> bool:
        """Whether the flag is Disabled."""
        return self.feature(key) == "Disabled"


DEFAULT = Options()
