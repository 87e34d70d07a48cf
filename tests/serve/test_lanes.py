"""Commands of the worker that hang hold up no others."""

import asyncio
import threading
from pathlib import Path

import pytest
from helpers.instances import run, runner, spec

from krun.errors import KrunError
from krun.serve.run import lanes, wire
from krun.serve.run.commands import COMMANDS


def test_each_command_has_a_lane() -> None:
    assert set(lanes._LANES) == set(COMMANDS)
    assert set(lanes._LANES.values()) == set(lanes._THREADS)


@pytest.mark.parametrize("hanging", sorted(lanes._THREADS.keys() - {"quick", "starts"}))
def test_a_lane_that_is_full_holds_up_no_start(hanging: str) -> None:
    """16 threads did everything: 16 pulls of a registry that does not answer, or 16 exec probes, and nothing started or ended."""
    own = lanes.Lanes()
    go, started = threading.Event(), threading.Event()
    (verb, *_) = (verb for verb, lane in lanes._LANES.items() if lane == hanging)
    for _ in range(lanes._THREADS[hanging] + 4):
        own.submit({"do": verb, "id": "one"}, lambda: go.wait(60) and None)
    own.submit({"do": "start", "id": "two"}, started.set)
    assert started.wait(60)
    go.set()
    own.shutdown()


def test_an_instance_has_a_bounded_number_of_execs() -> None:
    own = lanes.Lanes()
    asked = {"do": "exec", "id": "one"}
    assert [own.take(asked) for _ in range(lanes._EXECS)] == [""] * lanes._EXECS
    assert "have not ended" in own.take(asked) and own.take(asked | {"id": "two"}) == ""
    own.give(asked)
    assert own.take(asked) == ""
    own.shutdown()


@pytest.mark.root
@pytest.mark.usefixtures("as_root")
def test_a_worker_that_speaks_another_protocol_is_not_taken_over(
    directory: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with runner(directory, "true", images) as r:
            monkeypatch.setattr(wire, "VERSION", wire.VERSION + 1)
            pid = (await r.worker.call("hello"))[0]["pid"]
            with pytest.raises(
                KrunError, match=rf"protocol 1, not 2\); end it with its instances \(kill {pid}\)"
            ):
                await r.open()
            monkeypatch.undo()
            await r.open()

    run(test)


@pytest.mark.root
@pytest.mark.kvm
@pytest.mark.usefixtures("as_root")
def test_exec_probes_that_hang_do_not_stop_a_start(directory: Path, runtime: str, images: Path) -> None:
    async def test() -> None:
        async with runner(directory, runtime, images) as r:
            one = await r.start(spec("one", container={"args": ["serve"]}))
            probes = [
                asyncio.ensure_future(one.exec("user-container", ["/payload", "sleep"], 60))
                for _ in range(lanes._EXECS)
            ]
            await asyncio.sleep(0)  # they are sent
            with pytest.raises(KrunError, match="have not ended"):
                await one.exec("user-container", ["/payload", "sleep"], 60)
            two = await r.start(spec("two", container={"args": ["serve"]}))
            assert two.state == "running" and not any(probe.done() for probe in probes)
            await one.stop(0)
            await asyncio.gather(*probes, return_exceptions=True)

    run(test)
