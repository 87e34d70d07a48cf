"""The guest corpus: every program natively, then under the monitor (directly), then in one container as a batch.

Natively each program checks itself; in the VM it has to print and end exactly as it did natively.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "guest"))
import corpus

import build

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = build.programs()
PAIRS = [(program, variant) for program in PROGRAMS for variant in program.variants]
IDS = [program.binary(variant).name for program, variant in PAIRS]
#: With calls completed inside the guest (docs/calls.md): what sees or changes their answers, and each eighth of the others.
#: KRUN_LOCAL=all: every program.
LOCAL_NAMES = ("cred_", "elf_syscall_registers", "local_", "sig_action", "proc_vfork", "thr_clone")
LOCAL = [
    pair
    for number, pair in enumerate(PAIRS)
    if os.environ.get("KRUN_LOCAL") == "all"
    or (pair[1] == pair[0].variants[0] and (pair[0].name.startswith(LOCAL_NAMES) or number % 8 == 0))
]
MONITOR = ROOT / "krun/native/krun-monitor"
#: The limit is a program's; the first test also waits for the compilation of all programs.
pytestmark = pytest.mark.timeout(180, func_only=True)


@pytest.fixture(scope="module", autouse=True)
def built():
    build.build(PROGRAMS)


@pytest.fixture(scope="module")
def vm():
    """What a VM needs; its absence is a failure with the remedy, never a skip."""
    assert os.access("/dev/kvm", os.R_OK | os.W_OK), "/dev/kvm is missing or not ours: krun doctor says more"
    assert "KRUN_DIRECT" in os.environ or MONITOR.exists(), f"{MONITOR} is missing: run ./dev setup"


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_native(pair):
    result = corpus.native(*pair)
    assert corpus.native_problem(pair[0], result) is None, result.out.decode(errors="replace")


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_direct(pair, vm):
    assert corpus.native(*pair).difference(corpus.direct(*pair)) == ""


@pytest.mark.parametrize("mode", corpus.LOCAL)
@pytest.mark.parametrize("pair", LOCAL, ids=[program.binary(variant).name for program, variant in LOCAL])
def test_local(pair, mode, vm):
    """With calls completed inside the guest, always or at random, a program sees what it sees natively."""
    assert corpus.native(*pair).difference(corpus.direct(*pair, *corpus.LOCAL[mode])) == ""


@pytest.mark.timeout(480, func_only=True)  # 390 programs, with runc and then with krun
def test_batch_in_one_container(vm):
    pairs = [(program, program.variants[0]) for program in PROGRAMS if not program.host]
    truth, seen = corpus.batch(pairs, ["runc"]), corpus.batch(pairs, corpus.RUNTIME)
    different = {name: truth[name].difference(seen[name]) for name in truth if truth[name] != seen[name]}
    assert not different, "\n".join(f"{name}:\n{why}" for name, why in different.items())
