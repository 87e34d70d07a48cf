"""Ring 3 and forged exits (rules.c), natively first, then in a VM: on the development machine and on the emulated kvm_amd."""

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: The emulated machine says so: tests/amd/job.sh.
ARGUMENTS = ["without-far-returns"] if os.environ.get("KRUN_TEST_MACHINE") == "emulated" else []
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    program = tmp_path_factory.mktemp("rules") / "rules"
    source = Path(__file__).with_name("rules.c")
    command = [
        "gcc",
        "-static",
        "-O1",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(program),
        str(source),
    ]
    subprocess.run(command, check=True)
    return program


def output(*command):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")


def difference(native, inside):
    lines = difflib.unified_diff(
        native.splitlines(), inside.splitlines(), "native", "in the VM", n=0, lineterm=""
    )
    return list(lines)


def test_ring_3_and_forged_exits(rules):
    native = output(str(rules), *ARGUMENTS)
    assert native.returncode == 0 and "NOT" not in native.stdout, native
    inside = output(sys.executable, "-m", "krun.kvm.direct", str(rules), *ARGUMENTS)
    assert inside.returncode == 0, inside
    assert difference(native.stdout, inside.stdout) == []


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_ring_3_in_a_container(runtime, bundle, rules):
    (bundle.rootfs / "rules").write_bytes(rules.read_bytes())
    (bundle.rootfs / "rules").chmod(0o755)
    done = runtime.run(bundle.args("/rules", *ARGUMENTS))
    assert done.status == 0, done
    assert difference(output(str(rules), *ARGUMENTS).stdout, done.out) == []
