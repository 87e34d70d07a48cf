"""The scaler and the rollout beside straightforward oracles: lists instead of windows, one line for each sentence of the rules."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krun.serve.scale.kpa import Bounds, Sample, Scaler, Spec, ToZero, ZeroSpec, target, to_zero
from krun.serve.scale.rollout import Rollout, advance, begin, live
from krun.serve.scale.window import Average, Maximum, round_half_away


def plain_average(samples, size, now):
    """All samples in a list.  The first second is that of the first sample since the last gap of a whole window."""
    if not samples:
        return None
    first = samples[0][0]
    for before, after in zip(samples, samples[1:], strict=False):
        if int(after[0]) - int(before[0]) >= size:
            first = after[0]
    last, second = int(samples[-1][0]), int(now)
    if second - last >= size:
        return 0.0
    seconds = range(max(int(first), second - size + 1), last + 1)
    total = sum(v for s in seconds for t, v in samples if int(t) == s)
    return total / min(last - int(first) + 1, size - (second - last))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.floats(0, 8), st.floats(0, 1000)), min_size=1, max_size=60),
    st.floats(0, 30),
)
def test_average(size, steps, later):
    window, samples, now = Average(size), [], 1000.0
    for step, value in steps:
        now += step
        window.record(now, value)
        samples.append((now, value))
        assert window.value(now) == pytest.approx(plain_average(samples, size, now), abs=2e-6, rel=1e-9)
    now += later
    assert window.value(now) == pytest.approx(plain_average(samples, size, now), abs=2e-6, rel=1e-9)
    assert window.empty(now) == (int(now) - int(samples[-1][0]) > size)


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 50)), min_size=1, max_size=50),
)
def test_maximum(seconds, steps):
    window, values, now = Maximum(seconds, 2.0), [], 1000.0
    for step, value in steps:
        now += step
        values.append((int(now // 2), value))
        live_values = [v for slot, v in values if slot > int(now // 2) - math.ceil(seconds / 2)]
        assert window.record(now, value) == max(live_values)


def test_rounding():
    assert [round_half_away(x) for x in (0.0000005, -0.0000005, 1 / 3, 2.5)] == [1e-06, -1e-06, 0.333333, 2.5]


class PlainScaler:
    """The rules, each as it is told; samples in a list."""

    def __init__(self, spec, now, ready):
        self.spec, self.samples = spec, []
        self.panic_at, self.most = (now if ready > 1 else None), ready
        self.history = []

    def decide(self, ready, now, reachable):
        s = self.spec
        if not self.samples or int(now) - int(self.samples[-1][0]) > s.stable_window:
            return None
        stable = round_half_away(plain_average(self.samples, int(s.stable_window), now))
        panic = round_half_away(plain_average(self.samples, s.panic_window, now))
        rc = max(1, ready)
        low = math.floor(rc / s.scale_down_rate) if reachable else 0
        high = math.ceil(s.scale_up_rate * rc)
        ds, dp = math.ceil(stable / s.target), math.ceil(panic / s.target)
        want, want_panic = sorted((low, ds, high))[1], sorted((low, dp, high))[1]
        if s.activation_scale > 1 and ds > 0:
            want = max(want, s.activation_scale)
        if s.activation_scale > 1 and dp > 0:
            want_panic = max(want_panic, s.activation_scale)
        if dp / rc >= s.panic_threshold:
            self.panic_at = now
        elif self.panic_at is not None and now - self.panic_at > s.stable_window:
            self.panic_at, self.most = None, 0
        if self.panic_at is not None:
            self.most = want = max(want, want_panic, self.most)
        if s.scale_down_delay and reachable:
            self.history.append((int(now // 2), want))
            want = max(
                v for slot, v in self.history if slot > int(now // 2) - math.ceil(s.scale_down_delay / 2)
            )
        ebc = {0: 0, -1: -1}.get(s.burst_capacity)
        if ebc is None:
            ebc = math.floor(ready * s.total - s.burst_capacity - panic)
        return want, ebc, self.panic_at is not None


@pytest.mark.parametrize("seed", range(60))
def test_decisions_equal_those_of_the_rules(seed):
    rng = random.Random(seed)
    spec = Spec(
        target=rng.choice([0.7, 1, 7, 70]),
        total=rng.choice([1, 10, 100]),
        burst_capacity=rng.choice([-1, 0, 211]),
        stable_window=rng.choice([6, 20, 60]),
        panic_window_percentage=rng.choice([10, 25, 100]),
        panic_threshold=rng.choice([1.1, 2.0, 10.0]),
        scale_up_rate=rng.choice([1.1, 2, 1000]),
        scale_down_rate=rng.choice([1.1, 2, 10]),
        activation_scale=rng.choice([1, 3]),
        scale_down_delay=rng.choice([0, 0, 7, 30]),
    )
    now, ready = 5000.0, rng.choice([0, 1, 4])
    scaler, plain = Scaler(spec, now, ready), PlainScaler(spec, now, ready)
    load, valid = 0.0, 0
    for tick in range(200):
        now += 1.0 if rng.random() < 0.97 else rng.uniform(1, 90)
        if rng.random() < 0.1:
            load = rng.choice([0, rng.uniform(0, 5), rng.uniform(0, 500)])
        if rng.random() < 0.95:
            scaler.report(Sample(load, 0, 0), now)
            plain.samples.append((now, load))
        if tick % 2:
            reachable = rng.random() < 0.9
            got, wanted = scaler.decide(ready, now, reachable=reachable), plain.decide(ready, now, reachable)
            assert got.valid == (wanted is not None)
            if wanted is not None:
                valid += 1
                assert (got.wanted, got.ebc, got.panic) == wanted
                assert got.desired == got.wanted
                if rng.random() < 0.7:
                    ready = got.desired
    assert valid > 40


def test_the_first_request_counts_once_and_at_once():
    scaler = Scaler(Spec(target=0.7, total=1), 100.0)
    assert not scaler.decide(0, 100.0).valid
    scaler.poke(100.0)
    assert scaler.decide(0, 100.0).desired == 2  # 1 / 0.7
    scaler.report(Sample(1.0, 1.0, 1), 101.0)
    # Seconds 100 and 101: (1 + 0) / 2.
    assert scaler.decide(0, 101.0).stable_value == 0.5


def test_requests_per_second():
    scaler = Scaler(Spec(metric="rps", target=140, total=200), 0.0)
    for second in range(10):
        scaler.report(Sample(0, 0, 700, 1.0), float(second))
    assert scaler.decide(1, 9.0).desired == 5


def test_bounds():
    scaler = Scaler(Spec(target=1), 0.0)
    scaler.report(Sample(50, 0, 0), 0.0)
    assert scaler.decide(1, 0.0, bounds=Bounds(0, 3)).desired == 3
    scaler = Scaler(Spec(target=1), 0.0)
    scaler.report(Sample(0, 0, 0), 0.0)
    assert scaler.decide(1, 0.0, bounds=Bounds(2, 0)).desired == 2
    assert scaler.decide(1, 0.0, reachable=False, bounds=Bounds(2, 0)).desired == 0
    assert scaler.decide(0, 0.0, reachable=False, initial=4).desired == 4
    fresh = Scaler(Spec(), 0.0).decide(0, 0.0, bounds=Bounds(1, 0), initial=3)
    assert (fresh.desired, fresh.valid) == (3, False)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        ({}, (70, 100)),
        ({"concurrency": 10}, (7, 10)),
        ({"concurrency": 10, "annotation": 5}, (3.5, 5)),
        ({"concurrency": 10, "annotation": 50}, (7, 10)),
        ({"annotation": 200}, (140, 200)),
        ({"metric": "rps"}, (140, 200)),
        ({"metric": "rps", "annotation": 10, "concurrency": 1}, (7, 10)),
        ({"annotation": 0.001}, (0.01, 0.001)),
    ],
)
def test_target(arguments, wanted):
    usual = {
        "metric": "concurrency",
        "concurrency": 0,
        "annotation": None,
        "utilization": 0.7,
        "default": 100,
        "rps_default": 200,
    }
    assert target(**(usual | arguments)) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "activity, age, spec, wanted",
    [
        ("active", 10, ZeroSpec(enabled=False), ToZero(1, False, 0)),
        ("activating", 10, ZeroSpec(), ToZero(None, False, 620)),
        ("activating", 630, ZeroSpec(), ToZero(0, True, 0)),
        ("active", 20, ZeroSpec(), ToZero(1, False, 40)),
        ("active", 60, ZeroSpec(), ToZero(0, True, 0)),
        ("active", 60, ZeroSpec(retention=30), ToZero(None, True, 30)),
        ("inactive", 29, ZeroSpec(retention=30), ToZero(None, False, 1)),
        ("inactive", 30, ZeroSpec(retention=30), ToZero(0, False, 0)),
    ],
)
def test_to_zero(activity, age, spec, wanted):
    assert to_zero(activity, 1000.0, 1000.0 + age, spec) == wanted


def test_rollout_of_120_seconds():
    state = begin(Rollout(100, (("old", 100),)), "new", 100, 120.0, 0.0)
    assert state.shares == (("old", 99), ("new", 1)) and state.running
    state = live(state, 120.0, 2.0)
    # min 2, d 118, n = min(59, 99) = 59, step = round(99 / 59) = 2, every 2 s.
    assert (state.step, state.interval) == (2, 2.0)
    assert advance(state, 3.9).shares == state.shares
    assert advance(state, 4.0).shares == (("old", 97), ("new", 3))
    assert advance(state, 120.0) == Rollout(100, (("new", 100),))


def test_a_third_revision_takes_from_the_second_first():
    state = live(begin(Rollout(100, (("a", 100),)), "b", 100, 60.0, 0.0), 60.0, 1.0)
    state = advance(state, 10.0)
    share = dict(state.shares)["b"]
    third = begin(state, "c", 100, 60.0, 10.0)
    assert dict(third.shares)["b"] == share - 1 and dict(third.shares)["c"] == 1
    third = advance(live(third, 60.0, 11.0), 1000.0)
    assert third.shares == (("c", 100),)


def test_no_rollout_where_none_is_asked():
    old = Rollout(100, (("a", 100),))
    for state in (
        begin(None, "b", 100, 60, 0),
        begin(old, "b", 100, 0, 0),
        begin(Rollout(1, (("a", 1),)), "b", 1, 60, 0),
    ):
        assert state.shares in ((("b", 100),), (("b", 1),)) and not state.running
    assert begin(old, "a", 100, 60, 0) == old


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcde"), st.integers(0, 100), st.floats(0, 40)), min_size=1, max_size=25
    ),
    st.integers(0, 100),
)
def test_a_rollout_never_loses_a_percent(changes, duration):
    state, now = None, 0.0
    for revision, percent, wait in changes:
        state = begin(state, revision, percent, float(duration), now)
        now += wait
        state = advance(live(state, float(duration), now), now + wait)
        now += wait
        assert sum(share for _, share in state.shares) == percent == state.percent
        assert all(share > 0 for _, share in state.shares) or len(state.shares) == 1
        assert len({name for name, _ in state.shares}) == len(state.shares)
        assert state.shares[-1][0] == revision
    end = advance(live(state, float(duration), now), now + 1e6)
    assert end.shares == ((changes[-1][0], changes[-1][1]),)
