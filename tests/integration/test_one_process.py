"""Many containers from one process, by oci/container.py: separate logs, and nothing of the process is used up or changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.bundle import Bundle

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.root, pytest.mark.kvm]

SERVER = """
import json, os, sys
from krun.errors import KrunError
from krun.log import Log
from krun.oci import container, enter, plan, spec
from krun.oci.spec import parse_process

base, count = sys.argv[1], int(sys.argv[2])

def held():
    # What the process is, as far as containers could change it: descriptors, processors, umask, directory, children.
    fds = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd.isdigit() and os.path.exists(f"/proc/self/fd/{fd}")}
    umask = os.umask(0); os.umask(umask)
    return sorted(fds.items()), sorted(os.sched_getaffinity(0)), umask, os.getcwd()

def make(number, log):
    config = spec.load(f"{base}/{number}", None)
    options = container.CreateOptions(base + "/state", f"box{number}", log)
    options.rootless = False
    return container.create(config, plan.build(config), options)

def log_of(number):
    log = Log()
    log.setup(f"{base}/log{number}", "json", True)
    return log

first = held()
boxes = []
for number in range(count):
    log = log_of(number)
    boxes.append((make(number, log), log))
codes = []
sys.excepthook = lambda kind, error, trace: (sys.__excepthook__(kind, error, trace), [box.undo() for box, _ in boxes])
for number, (box, log) in enumerate(boxes):
    box.start()
    options = enter.ExecOptions(base + "/state", f"box{number}", log)
    process = parse_process(json.dumps({"args": ["/bin/true"], "cwd": "/", "execCPUAffinity": {"initial": "0"}}).encode())
    more = enter.exec_process(box.spec, box.state, process, options)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(more.pid, 0)[1]))
    more.close()
    open(f"{base}/{number}/rootfs/stop", "w").close()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(box.launched.pid, 0)[1]))
    box.destroy()
    box.close()
    log.close()
try:
    log = log_of(count)
    make(count, log)
except KrunError as error:
    codes.append(str(error))
log.close()
last = held()
print(json.dumps({"codes": codes, "first": first, "last": last}))
"""


def test_containers_of_one_process_have_their_own_logs(tmp_path: Path) -> None:
    for number in range(2):
        bundle = Bundle(tmp_path / str(number))
        bundle.shell(f"while [ ! -e /stop ]; do sleep 0.1; done; exit {number + 3}")
        bundle.process["capabilities"]["bounding"].append(f"CAP_OF_{number}")
        bundle.linux["cgroupsPath"] = f"/krun-test-{os.getpid()}-{number}"
        (bundle.path / "config.json").write_text(json.dumps(bundle.config))
    wrong = Bundle(tmp_path / "2").args("/not/there")
    wrong.linux["cgroupsPath"] = f"/krun-test-{os.getpid()}-2"
    (wrong.path / "config.json").write_text(json.dumps(wrong.config))
    # The notification socket is the server's own: none of its containers may follow it.
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path), "2"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, "NOTIFY_SOCKET": "/run/nobody"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["codes"][:4] == [0, 3, 0, 4]
    assert "no such file or directory" in told["codes"][4]
    assert told["last"] == told["first"]
    for number in range(2):
        lines = [json.loads(line)["msg"] for line in (tmp_path / f"log{number}").read_text().splitlines()]
        assert [line for line in lines if "unavailable" in line] == [
            f"ignoring unknown or unavailable capabilities: [CAP_OF_{number}]"
        ]
    assert done.stderr == ""
