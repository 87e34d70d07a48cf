"""The fast launcher (krun/native/launcher, build_launcher.py): it takes the bundle when that is current, and the plain
script in every other case; both do the same."""

from __future__ import annotations

import marshal
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from krun.native import build_launcher

sys.path.insert(0, str(Path(__file__).parent))

HEAD = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("launcher")
    build_launcher.build(path)
    if not (path / "krun.bundle").exists():
        pytest.skip("no static libpython")
    return path


@pytest.fixture
def command(folder: Path) -> Path:
    """A launcher whose script only says that it was taken."""
    (folder / "krun.py").write_text("#!/bin/sh\necho script; exit 77\n")
    (folder / "krun.bundle").write_bytes(build_launcher.bundle())
    return folder / "krun"


def call(
    command: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([command, *arguments], capture_output=True, env=env or {}, timeout=60)


def parts(data: bytes) -> tuple[bytes, dict[str, list[str]], dict[str, tuple[object, ...]], bytes]:
    start, index = (int.from_bytes(data[at : at + 4], "little") for at in (12, 16))
    orders, modules = marshal.loads(data[HEAD + start : HEAD + start + index])
    return data[: HEAD + start], orders, modules, data[HEAD + start + index :]


def test_the_bundle_holds_what_hotpath_lists() -> None:
    listed = {}
    for line in Path(__file__).with_name("hotpath.txt").read_text().splitlines():
        if not line.startswith("#"):
            verb, _, words = line.partition(":")
            listed[verb] = {w for w in words.split() if w.startswith("krun") or w in build_launcher.COMPILED}
    assert {verb: set(order) for verb, order in build_launcher.orders().items()} == listed


def test_built_twice_it_is_the_same() -> None:
    assert build_launcher.bundle() == build_launcher.bundle()


def test_a_hot_verb_runs_from_the_bundle(command: Path, tmp_path: Path) -> None:
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
    assert done.returncode == 1 and b"Error" not in done.stderr and b"script" not in done.stdout, done


@pytest.mark.parametrize("arguments", [["--version"], ["list"], ["--help"], []])
def test_other_verbs_go_to_the_script(command: Path, arguments: list[str]) -> None:
    assert call(command, *arguments).returncode == 77


def test_a_changed_source_goes_to_the_script(command: Path, folder: Path, tmp_path: Path) -> None:
    head, orders, modules, rest = parts(build_launcher.bundle())
    row = modules["krun.log"]
    modules["krun.log"] = (*row[:2], int(str(row[2])) + 1, *row[3:])
    index = marshal.dumps((orders, modules))
    (folder / "krun.bundle").write_bytes(
        head[:16] + len(index).to_bytes(4, "little") + head[20:] + index + rest
    )
    assert call(command, "--root", str(tmp_path), "state", "no-such").returncode == 77


@pytest.mark.parametrize("spoil", ["absent", "empty", "short", "other python"])
def test_a_bad_bundle_goes_to_the_script(command: Path, folder: Path, tmp_path: Path, spoil: str) -> None:
    bundle = folder / "krun.bundle"
    data = bundle.read_bytes()
    if spoil == "absent":
        bundle.unlink()
    else:
        bundle.write_bytes(
            {"empty": b"", "short": data[:40], "other python": data[:8] + b"\1\2\3\4" + data[12:]}[spoil]
        )
    assert call(command, "--root", str(tmp_path), "state", "no-such").returncode == 77


def test_a_rare_import_makes_the_interpreter_whole(folder: Path, tmp_path: Path) -> None:
    """An import outside of the bundle in the middle of a hot verb: files, codecs, streams are there then."""
    head, orders, modules, rest = parts(build_launcher.bundle())
    probe = (
        "import os, sys\n"
        "light = os\n"
        "assert sys.stdout is None\n"
        "assert os.path.abspath('/a/../b') == '/b' and os.environ['GIVEN'] == '\\udcff'\n"
        "import json, socket\n"
        "import os as real\n"
        "assert real is not light and real.environb and light.makedirs is real.makedirs\n"
        "assert light.environ['GIVEN'] == real.environ['GIVEN']\n"
        "import krun.jsonio, yaml\n"
        "def main(t0=0):\n"
        "    print(json.dumps(['\\u00e9'.encode('latin-1').hex(), socket.AF_UNIX, t0 > 0]))\n"
        "    sys.stdout.flush()\n"
        "    real._exit(3)\n"
    )
    code = marshal.dumps(compile(probe, "probe", "exec"))
    row = modules["krun.__main__"]
    modules["krun.__main__"] = (*row[:4], len(rest), len(code))
    index = marshal.dumps((orders, modules))
    (folder / "krun.bundle").write_bytes(
        head[:16] + len(index).to_bytes(4, "little") + head[20:] + index + rest + code
    )
    done = subprocess.run(
        [folder / "krun", "state", "x"],
        capture_output=True,
        env={"GIVEN": b"\xff"},
        timeout=60,  # type: ignore[dict-item]
    )
    assert (done.returncode, done.stdout) == (3, b'["e9", 1, true]\n'), done


def test_without_a_static_libpython_the_script_is_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_launcher, "_link", lambda folder: False)
    command = build_launcher.build(tmp_path)
    assert command.read_bytes().startswith(b"#!")
    assert shutil.which("krun", path=str(tmp_path)) == str(command)
    assert call(command, "--root", str(tmp_path / "r"), "state", "no-such").returncode == 1
