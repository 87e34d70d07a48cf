"""krun/sysio.py: an open that the kernel asks to be tried again."""

import os
from errno import EAGAIN, EINTR, ENOENT
from types import SimpleNamespace

import pytest

from krun import sysio


class Kernel:
    """openat2(2) with these answers, the last one for ever; the clock goes on by `pace` seconds a call."""

    def __init__(self, monkeypatch, answers, pace=0.0):
        self.answers = answers
        self.pace = pace
        self.calls = 0
        self.now = 100.0
        monkeypatch.setattr(sysio, "lib", SimpleNamespace(kr_openat2=self.openat2))
        monkeypatch.setattr(sysio, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))

    def openat2(self, *_):
        self.calls += 1
        self.now += self.pace
        return self.answers[min(self.calls, len(self.answers)) - 1]

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("number", [EAGAIN, EINTR])
def test_an_open_is_tried_again_but_not_for_ever(monkeypatch, number):
    """A payload renames without end, or holds a lease (docs/security.md)."""
    kernel = Kernel(monkeypatch, [-number])
    assert sysio.try_openat2(3, "a", os.O_PATH, sysio.RESOLVE_IN_ROOT) == -number
    assert 100 < kernel.calls < 10_000


def test_a_slow_open_has_its_tries(monkeypatch):
    """A machine under load: the time is over, and there were few tries."""
    kernel = Kernel(monkeypatch, [-EAGAIN] * 20 + [7], pace=5.0)
    assert sysio.openat2(3, "a", os.O_PATH, sysio.RESOLVE_IN_ROOT) == 7
    assert kernel.calls == 21


def test_another_error_is_told_at_once(monkeypatch):
    kernel = Kernel(monkeypatch, [-EAGAIN, -ENOENT])
    assert sysio.try_openat2(3, "a", os.O_PATH, sysio.RESOLVE_IN_ROOT) == -ENOENT
    assert kernel.calls == 2
