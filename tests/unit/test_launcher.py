"""The fast launcher (krun/native/launcher, build_launcher.py): a started interpreter with the hot modules in it. It takes the
plain script whenever a source has changed; both do the same; nothing of the process that made it is left in it."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from krun.native import build_launcher


def make(folder: Path) -> Path:
    """A launcher whose script only says that it was taken."""
    command = build_launcher.build(folder)
    if command.read_bytes().startswith(b"#!"):
        pytest.fail(
            "no launcher was made, see standard error; the package python3-dev has the static libpython"
        )
    (folder / "krun.py").write_text("#!/bin/sh\necho script; exit 77\n")
    return command


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("launcher"))


def with_main(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> Path:
    """A launcher whose krun.__main__ is `text`."""
    code, frequent, (loaded, compiled, hot) = marshal.loads(build_launcher.modules())
    package, path, _ = loaded["krun.__main__"]
    loaded["krun.__main__"] = (package, path, compile(text, "probe", "exec"))
    monkeypatch.setattr(
        build_launcher, "modules", lambda: marshal.dumps((code, frequent, (loaded, compiled, hot)))
    )
    return make(folder)


def call(
    command: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([command, *arguments], capture_output=True, env=env or {}, timeout=60)


def test_in_memory_is_what_hotpath_lists() -> None:
    listed = {}
    for line in Path(__file__).with_name("hotpath.txt").read_text().splitlines():
        if not line.startswith("#"):
            verb, _, words = line.partition(":")
            listed[verb] = {w for w in words.split() if w.startswith("krun.") or w == "krun"}
    made = {
        verb: {w for w in order if w.startswith("krun")} for verb, order in build_launcher.orders().items()
    }
    assert made == listed
    loaded = marshal.loads(build_launcher.modules())[2][0]
    assert set().union(*listed.values()) - set(build_launcher.COMPILED) <= set(loaded)


def test_another_python_gets_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that nobody has looked into keeps its state who knows where: a memory of that would not be sound."""
    monkeypatch.setattr(build_launcher, "KNOWN", ())
    command = build_launcher.build(tmp_path)
    assert command.read_bytes().startswith(b"#!")
    assert call(command, "--root", str(tmp_path / "r"), "state", "no-such").returncode == 1


def test_functions_that_the_hot_verbs_call_lie_together() -> None:
    """The list may lag behind the sources a little: what it does not name costs time only (tests/perf/frequent.py)."""
    lines = build_launcher.FREQUENT.read_text().splitlines()
    short, others = marshal.loads(build_launcher.modules())[1]
    assert short and others
    named = {code.co_qualname for code in (*short, *others)}
    missing = [line for line in lines if line.partition(":")[2] not in named]
    assert len(lines) == len(set(lines)) and len(missing) <= len(lines) // 10, missing


def test_objects_that_the_hot_verbs_touch_lie_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of the memory, from its beginning: 512 are for them, and what is not among them lies behind."""
    command = with_main(
        monkeypatch,
        tmp_path,
        "import os, sys\n"
        "def main(t0=0):\n"
        "    from krun.cli import fast, table\n"
        "    from krun.oci import container, spec, state\n"
        "    near = fast.parse, fast.parse.__code__, state.StateDir.load, table.RUNTIME, os.open, str.partition, spec.load,\\\n"
        "        container.create, container.create.__code__\n"
        "    far = test, test.__code__, sys.setrecursionlimit\n"
        "    os.write(1, repr([[id(thing) >> 12 for thing in things] for things in (near, far)]).encode())\n"
        "    os._exit(0)\n"
        "def test():\n"
        "    pass\n",
    )
    near, far = json.loads(call(command, "state", "x").stdout)
    assert max(near) - min(near) < 512 and min(far) > max(near), (near, far)


def test_a_second_build_changes_nothing(command: Path) -> None:
    before = command.stat()
    assert build_launcher.build(command.parent) == command
    (command.parent / "krun.py").write_text("#!/bin/sh\necho script; exit 77\n")
    assert command.stat().st_ino == before.st_ino


def test_a_hot_verb_runs_from_memory(command: Path, tmp_path: Path) -> None:
    done = call(command, "--root", str(tmp_path), "state", "no-such")
    assert (done.returncode, b"container does not exist" in done.stderr) == (1, True)
    assert done.stdout == b""


@pytest.mark.parametrize(
    "verb", [["create"], ["start"], ["run"], ["kill"], ["delete"], ["exec", "--process", "/x"]]
)
def test_every_hot_verb_loads(command: Path, tmp_path: Path, verb: list[str]) -> None:
    bundle = ["--bundle", "/nope"] if verb[0] in ("create", "run") else []
    done = call(
        command, "--root", str(tmp_path), *verb, *bundle, "no-such-\u00e9" if verb[0] == "kill" else "no-such"
    )
    assert done.returncode == (255 if verb[0] == "exec" else 1)
    assert b"Error" not in done.stderr and b"script" not in done.stdout, done


@pytest.mark.parametrize("arguments", [["--version"], ["list"], ["--help"], []])
def test_other_verbs_go_to_the_script(command: Path, arguments: list[str]) -> None:
    assert call(command, *arguments).returncode == 77


@pytest.mark.parametrize("change", ["time", "size", "gone"])
def test_a_changed_source_goes_to_the_script(command: Path, tmp_path: Path, change: str) -> None:
    stamps = build_launcher.stamps()
    time, size, length = struct.unpack_from("=qqq", stamps)
    path = stamps[24 : 24 + length]
    other = {
        "time": struct.pack("=qqq", time + 1, size, length) + path,
        "size": struct.pack("=qqq", time, size + 1, length) + path,
        "gone": struct.pack("=qqq", time, size, length) + path.replace(b"/krun", b"/nope"),
    }[change]
    image = command.read_bytes()
    assert image.count(stamps) == 1
    changed = command.with_name("changed")
    changed.write_bytes(image.replace(stamps, other + stamps[24 + length :]))
    changed.chmod(0o755)
    assert call(command, "--root", str(tmp_path), "state", "no-such").returncode == 1
    assert call(changed, "--root", str(tmp_path), "state", "no-such").returncode == 77


PROBE = r"""
import os, sys, time
import _signal, _thread
def main(t0=0):
    assert sys.stdout is None
    found = {
        "argv": sys.argv, "given": os.environ["GIVEN"], "raw": os.environb[b"GIVEN"].hex(), "build": os.environ.get("BUILD"),
        "names": sorted(os.environ), "pid": os.getpid(), "tid": _thread.get_native_id(),
        "late": 0 < time.monotonic_ns() - t0 < 10**9,
        "hash": hash("a") == hash("b"[:0] + "a"),
    }
    # Threads need the identity of the main thread; signals are delivered to it only.
    import threading
    got = []
    thread = threading.Thread(target=got.append, args=(7,))
    thread.start()
    thread.join()
    found["thread"] = got
    found["main"] = threading.current_thread() is threading.main_thread()
    try:
        os.kill(os.getpid(), _signal.SIGINT)
        time.sleep(5)
    except KeyboardInterrupt:
        found["interrupted"] = True
    # What was allocated before grows, shrinks and goes.
    for number in range(100000):
        BEFORE[number] = bytes(number % 700)
    LIST.extend(BEFORE.values())
    sys.modules.copy().update(BEFORE)
    LIST.clear()
    BEFORE.clear()
    import json
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(3)
BEFORE = {n: str(n) for n in range(5000)}
LIST = [bytearray(n) for n in range(1000)]
"""


def test_nothing_of_the_making_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD", "only there")
    monkeypatch.setenv("LONG", "only there" * 1000)
    command = with_main(monkeypatch, tmp_path, PROBE)
    assert b"only there" not in command.read_bytes()
    with subprocess.Popen(
        [command, "state", "x\u00e9"],
        stdout=subprocess.PIPE,
        env={b"GIVEN": b"\xff", b"HOME": b"/"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        text = process.communicate(timeout=60)[0]
    found = json.loads(text)
    assert process.returncode == 3
    assert found == {
        "argv": [str(command), "state", "x\u00e9"],
        "given": "\udcff",
        "raw": "ff",
        "build": None,
        "names": ["GIVEN", "HOME"],
        "pid": process.pid,
        "tid": process.pid,
        "late": True,
        "hash": True,
        "thread": [7],
        "main": True,
        "interrupted": True,
    }


def test_an_interrupt_that_the_caller_ignores_stays_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = with_main(
        monkeypatch,
        tmp_path,
        "import os\n"
        "def main(t0=0):\n"
        "    fd = os.open('/proc/self/status', os.O_RDONLY)\n"
        "    for line in os.read(fd, 8192).splitlines():\n"
        "        if line[:4] in (b'SigI', b'SigC'):\n"
        "            os.write(1, line + b' ')\n"
        "    os._exit(0)\n",
    )

    def ignored_and_caught(disposition: signal.Handlers) -> tuple[set[int], set[int]]:
        done = subprocess.run(
            [command, "state", "x"],
            stdout=subprocess.PIPE,
            env={},
            preexec_fn=lambda: signal.signal(signal.SIGINT, disposition),
            restore_signals=True,
        )
        words = done.stdout.split()
        masks = [int(words[1], 16), int(words[3], 16)]
        ignored, caught = ({n for n in range(1, 65) if mask >> (n - 1) & 1} for mask in masks)
        return ignored, caught

    always = {signal.SIGPIPE, signal.SIGXFSZ}
    assert ignored_and_caught(signal.SIG_DFL) == (always, {signal.SIGINT})
    assert ignored_and_caught(signal.SIG_IGN) == (always | {signal.SIGINT}, set())


def test_a_rare_import_makes_the_interpreter_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of what is not in memory in the middle of a hot verb: files, codecs, streams are there then."""
    command = with_main(
        monkeypatch,
        tmp_path,
        "import os, sys\n"
        "def main(t0=0):\n"
        "    assert sys.stdout is None\n"
        "    import json, socket, yaml, krun.jsonio\n"
        "    assert krun.jsonio.loads('[1]') == [1]\n"
        "    print(json.dumps(['\\u00e9'.encode('latin-1').hex(), socket.AF_UNIX, t0 > 0, sys.argv[1:]]))\n"
        "    sys.stdout.flush()\n"
        "    os._exit(3)\n",
    )
    done = call(command, "state", "x")
    assert (done.returncode, done.stdout) == (3, b'["e9", 1, true, ["state", "x"]]\n'), done


def test_the_compiled_module_is_loaded_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = with_main(
        monkeypatch,
        tmp_path,
        "import os\n"
        "def loaded():\n"
        "    fd = os.open('/proc/self/maps', os.O_RDONLY)\n"
        "    text = b''.join(iter(lambda: os.read(fd, 1 << 16), b''))\n"
        "    os.close(fd)\n"
        "    return b'_krun.abi3' in text\n"
        "def main(t0=0):\n"
        "    from krun import sysio\n"
        "    from krun.sysio import lib\n"
        "    before = loaded()\n"
        "    a, b = sysio.socketpair()\n"
        "    fd = lib.kr_memfd_create(b'x', 0)\n"
        "    os.write(1, repr((before, loaded(), a < b, fd > 0)).encode())\n"
        "    os._exit(0)\n",
    )
    assert call(command, "state", "x").stdout == b"(False, True, True, True)"


def test_what_depends_on_the_process_is_found_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[tuple[bytes, bytes, bytes]] = []
    real = build_launcher.differences
    monkeypatch.setattr(build_launcher, "differences", lambda *a: kept.append(a) or real(*a))
    make(tmp_path / "good")
    plain, memory, again = kept[0]
    assert real(plain, memory, again) == []
    # What ld.so writes anew at every start is no difference, but it is there: environ and the streams of stdio.
    monkeypatch.setattr(build_launcher, "_relocated", lambda plain: set())
    assert len(real(plain, memory, again)) >= 4
    monkeypatch.undo()
    code, frequent, (loaded, compiled, hot) = marshal.loads(build_launcher.modules())
    package, path, _ = loaded["krun.log"]
    text = Path(path).read_text() + "\nSINCE = time.monotonic_ns()\n"
    loaded["krun.log"] = (package, path, compile(text, path, "exec"))
    monkeypatch.setattr(
        build_launcher, "modules", lambda: marshal.dumps((code, frequent, (loaded, compiled, hot)))
    )
    assert build_launcher.build(tmp_path / "bad").read_bytes().startswith(b"#!")
    assert "depends on the process" in capsys.readouterr().err


def test_without_a_static_libpython_the_script_is_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_launcher, "_link", lambda folder: False)
    command = build_launcher.build(tmp_path)
    assert command.read_bytes().startswith(b"#!")
    assert shutil.which("krun", path=str(tmp_path)) == str(command)
    assert call(command, "--root", str(tmp_path / "r"), "state", "no-such").returncode == 1


def test_without_a_compiler_the_script_is_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What pip has installed needs none. The static libpython comes without one. With a compiler it is made again."""
    make(tmp_path)
    with monkeypatch.context() as without:
        without.setenv("CC", "/nonexistent/gcc")
        assert build_launcher.build(tmp_path).read_bytes().startswith(b"#!")
    assert "/nonexistent/gcc" in capsys.readouterr().err
    make(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_monitor_gets_its_mode_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip makes it 0755: who can read it is dumpable at first when it executes it."""
    monitor = tmp_path / "krun-monitor"
    monitor.write_bytes(b"")
    monitor.chmod(0o755)
    monkeypatch.setattr(build_launcher.build_native, "MONITOR", monitor)
    monkeypatch.setattr(build_launcher, "_link", lambda folder: False)
    build_launcher.build(tmp_path / "bin")
    assert monitor.stat().st_mode & 0o777 == 0o111


def test_the_executable_is_everybodys_to_run(command: Path) -> None:
    assert os.stat(command).st_mode & 0o777 == 0o755
