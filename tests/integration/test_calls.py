"""Calls completed inside the guest (docs/calls.md): the administrator's switch, the annotation, the counters."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.settings import complete_calls

pytestmark = pytest.mark.parametrize("runtime", ["krun"], indirect=True)
CALLS = 5000
PVM = Path("/sys/module/kvm_pvm").is_dir()


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.c").write_text(f"""
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {{
    for (int i = 0; i < {CALLS}; i++)
        if (syscall(SYS_getpid) != getpid())
            return 1;
    return 0;
}}
""")
    subprocess.run(["gcc", "-O1", "-static", "-o", folder / "calls", folder / "calls.c"], check=True)
    return folder / "calls"


def counts(container):
    done = container.call("events", options=("--stats",)).ok()
    return json.loads(done.out)["data"]["krun"]["calls"]


def spent(container):
    """Runs the program; returns how many exits and completed calls it took."""
    before = counts(container)
    container.exec("/calls").ok()
    after = counts(container)
    completed = after["completed"]["fact"] - before["completed"]["fact"]
    assert (after["sites"] > before["sites"]) == (after["patched"] > before["patched"]) == (completed > 0)
    return after["exits"] - before["exits"], completed


def start(runtime, bundle, program):
    bundle.mount("/calls", program, "bind", "ro")
    return runtime.start(bundle.args("sleep", "1000"))


def all_exits(container):
    exits, completed = spent(container)
    return exits >= 2 * CALLS and completed == 0


def few_exits(container):
    exits, completed = spent(container)
    # Interrupts take a call out of the guest now and then: how often depends on the load.
    return completed > CALLS and exits + completed >= 2 * CALLS


def test_off_is_the_default(runtime, bundle, program):
    assert all_exits(start(runtime, bundle, program))


@pytest.mark.parametrize("word", ["on", "auto"])
def test_the_switch(runtime, bundle, program, word):
    """An exec goes by the configuration of its own moment. Where a system call enters ring 0 of the guest nothing is completed."""
    complete_calls(runtime, word)
    container = start(runtime, bundle, program)
    assert few_exits(container) if PVM else all_exits(container)
    complete_calls(runtime, "off")
    assert all_exits(container)


def test_the_annotation_takes_away(runtime, bundle, program):
    complete_calls(runtime, "on")
    bundle.config["annotations"] = {"io.krun.calls.local": "off"}
    assert all_exits(start(runtime, bundle, program))


def test_the_trace_is_complete(runtime, bundle, program):
    complete_calls(runtime, "on")
    container = start(runtime, bundle, program)
    log = runtime.work / "trace"
    done = container.exec("/calls", options=("--trace", os.fspath(log)))
    assert done.status == 0 and log.read_text().count("getpid()") >= 2 * CALLS
