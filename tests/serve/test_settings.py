"""config-* maps: Knative's defaults, its durations, its bounds; a wrong map changes nothing."""

import pytest

from krun.serve.settings import VIEWS, Configs, Domain
from krun.serve.units import seconds


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("0", 0),
        ("1s", 1),
        ("1h2m3.5s", 3723.5),
        ("100ms", 0.1),
        (".5s", 0.5),
        ("-2s", -2),
        ("+2s", 2),
        ("1.5h", 5400),
        ("3us", 3e-6),
    ],
)
def test_durations(text, wanted):
    assert seconds(text) == pytest.approx(wanted)


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "1d", "--1s", "1s1", "1e3s", "\u0661s"])
def test_no_durations(text):
    with pytest.raises(ValueError):
        seconds(text)


def test_the_defaults_are_knatives():
    configs = Configs()
    assert (configs.autoscaler.stable_window, configs.autoscaler.target_utilization) == (60, 0.7)
    assert (configs.defaults.timeout, configs.defaults.max_timeout) == (300, 600)
    assert (configs.gc.since_create, configs.gc.most) == (172800, 1000)
    assert configs.network.http_protocol == "enabled" and configs.deployment.progress_deadline == 600


@pytest.mark.parametrize(
    "name, data",
    [
        ("config-autoscaler", {"stable-window": "5s"}),
        ("config-autoscaler", {"stable-window": "60.5s"}),
        ("config-autoscaler", {"max-scale-up-rate": "1"}),
        ("config-autoscaler", {"max-scale-up-rate": "nan"}),
        ("config-autoscaler", {"panic-threshold-percentage": "100"}),
        ("config-autoscaler", {"initial-scale": "0"}),
        ("config-autoscaler", {"max-scale-limit": "5"}),
        ("config-autoscaler", {"target-burst-capacity": "-2"}),
        ("config-autoscaler", {"enable-scale-to-zero": "yes"}),
        ("config-autoscaler", {"container-concurrency-target-percentage": "101"}),
        ("config-defaults", {"revision-timeout-seconds": "601"}),
        ("config-defaults", {"container-concurrency": "1001"}),
        ("config-defaults", {"allow-container-concurrency-zero": "false"}),
        ("config-defaults", {"revision-timeout-seconds": "1_0"}),
        ("config-gc", {"min-non-active-revisions": "1001"}),
        ("config-gc", {"retain-since-create-time": "2"}),
        ("config-network", {"http-protocol": "ftp"}),
        ("config-network", {"tag-template": "{{.Namespace}}-{{.Tag}}-{{.Name}}"}),
        ("config-network", {"domain-template": "{{.Tag}}.{{.Domain}}"}),
        ("config-network", {"domain-template": "{{.Name}}.\u00fc.{{.Domain}}"}),
        ("config-network", {"domain-template": "{{.Name}}/{{.Domain}}"}),
        ("config-deployment", {"progress-deadline": "0s"}),
        ("config-domain", {"example.com": "selector: 5"}),
        ("config-domain", {"example.com": "{"}),
    ],
)
def test_a_wrong_map_changes_nothing(name, data):
    told = []
    configs = Configs(told.append)
    before = configs.autoscaler, configs.defaults, configs.gc, configs.network, configs.domain
    with pytest.raises(ValueError, match=name):
        configs.apply(name, data)
    assert told == [] and before == (
        configs.autoscaler,
        configs.defaults,
        configs.gc,
        configs.network,
        configs.domain,
    )


def test_changes_are_told_once():
    told = []
    configs = Configs(told.append)
    data = {
        "_example": "###",
        "stable-window": "40s",
        "container-concurrency-target-percentage": "80",
        "unknown": "1",
    }
    assert configs.apply("config-autoscaler", data) and not configs.apply("config-autoscaler", data)
    assert configs.autoscaler.stable_window == 40 and configs.autoscaler.target_utilization == 0.8
    assert configs.apply("config-autoscaler", None) and configs.autoscaler.stable_window == 60
    assert not configs.apply("config-logging", {"x": "y"}) and told == ["config-autoscaler"] * 2
    configs.apply(
        "config-gc", {"max-non-active-revisions": "disabled", "retain-since-create-time": "disabled"}
    )
    assert configs.gc.most is None and configs.gc.since_create is None
    configs.apply(
        "config-features",
        {"multi-container": "disabled", "tag-header-based-routing": "Enabled", "x": "maybe"},
    )
    assert configs.features.flags == {"multi-container": "Disabled", "tag-header-based-routing": "Enabled"}


def test_domains_with_more_labels_win():
    domain = Domain.parse(
        {"example.com": "", "prod.org": "selector:\n  app: prod\n", "p.org": "selector: {app: prod, tier: a}"}
    )
    assert domain.lookup({"app": "prod", "tier": "a"}, "x") == "p.org"
    assert domain.lookup({"app": "prod"}, "x") == "prod.org"
    assert domain.lookup({}, "x") == "example.com" and Domain().lookup({}, "localhost") == "localhost"


def test_every_view_has_its_name():
    assert len({view.NAME for view in VIEWS}) == 8 and all(view.NAME.startswith("config-") for view in VIEWS)


@pytest.mark.parametrize(
    "instances, memory, found",
    [
        (None, "", (0, 0)),
        (5, "1.5Gi", (5, 3 << 29)),
        (0, "", "--max-instances 0: a number of 1 or more is wanted"),
        (None, "much", "--memory-budget much: a quantity such as 4Gi is wanted"),
        (None, "-1", "--memory-budget -1: a quantity such as 4Gi is wanted"),
        (None, "100m", "--memory-budget 100m: a quantity such as 4Gi is wanted"),
    ],
)
def test_bounds_of_all_instances(instances, memory, found):
    from types import SimpleNamespace

    from krun.errors import UsageError
    from krun.serve.app import Options
    from krun.serve.cli import _bounds

    options = Options()
    given = SimpleNamespace(max_instances=instances, memory_budget=memory, idle=None, idle_delay=None)
    if isinstance(found, str):
        with pytest.raises(UsageError, match=found):
            _bounds(options, given)
    else:
        _bounds(options, given)
        assert (options.instances, options.memory) == found
