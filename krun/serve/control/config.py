"""What of Knative's configuration the control plane needs. The values are Knative's own defaults, where they fit one machine.

Sources: knative/serving config/core/configmaps (autoscaler, gc, deployment), knative/networking config-network. app.py fills
them from the ConfigMaps of the namespace knative-serving and the command line.
"""

from dataclasses import dataclass, field

from krun.serve.model.idle import Idle
from krun.serve.model.options import Options
from krun.serve.settings import Domain


@dataclass(frozen=True)
class Config:
    """Times are seconds.

    domain: external domain of hosts for which `domains` has none; port: the ingress's, for URLs (0: the scheme's own);
    tag_template and domain_template as str.format with name, tag, namespace, domain. gc_* None: the rule is off.
    """

    options: Options = field(default_factory=Options)
    domain: str = "localhost"
    domains: Domain = field(default_factory=Domain)
    port: int = 0
    scheme: str = "http"
    domain_template: str = "{name}.{namespace}.{domain}"
    tag_template: str = "{tag}-{name}"
    cluster_domain: str = "cluster.local"
    rollout_duration: float = 0.0
    tag_header_routing: bool = False
    progress_deadline: float = 600.0
    gc_since_create: float | None = 48 * 3600.0
    gc_since_active: float | None = 15 * 3600.0
    gc_min: int = 20
    gc_max: int | None = 1000
    stable_window: float = 60.0
    panic_window_percentage: float = 10.0
    panic_threshold_percentage: float = 200.0
    target_percentage: float = 70.0
    target_default: float = 100.0
    rps_default: float = 200.0
    burst_capacity: float = 211.0
    max_scale_up_rate: float = 1000.0
    max_scale_down_rate: float = 2.0
    scale_down_delay: float = 0.0
    retention: float = 0.0
    enable_scale_to_zero: bool = True
    min_scale: int = 0
    max_scale: int = 0
    max_scale_limit: int = 0
    initial_scale: int = 1
    activation_scale: int = 1
    #: Of revisions that say nothing (serve.krun.dev/idle).
    idle: Idle = Idle()
