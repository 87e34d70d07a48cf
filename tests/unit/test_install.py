"""krun install and uninstall: files of engines before and after."""

from __future__ import annotations

import json
import os
import stat
import tomllib

import pytest

from krun.cli import fast, install
from krun.errors import KrunError, UsageError


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "bin" / "krun"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def call(line, file):
    row, opts = fast.parse([*line.split(), "--file", str(file)])
    return getattr(install, row.call.partition(":")[2])(opts)


ORIGINALS = {
    "podman": "",
    "crio": "",
    "docker": '{\n  "log-level": "warn",\n  "runtimes": {"other": {"path": "/o"}}\n}\n',
    "containerd": 'version = 2\n\n[plugins]\n  [plugins."io.containerd.grpc.v1.cri".cni]\n    bin_dir = "/x"\n',
}


@pytest.mark.parametrize("engine", ORIGINALS)
@pytest.mark.parametrize("fresh", [True, False])
def test_there_and_back(engine, fresh, tmp_path, command, capsys):
    file = tmp_path / "etc" / "deep" / "file"
    original = "" if fresh else ORIGINALS[engine]
    if original:
        file.parent.mkdir(parents=True)
        file.write_text(original)
        file.chmod(0o640)
    line = f"install --path {command} {engine}"
    call(f"{line} --dry-run", file)
    assert f"+++ {file}" in capsys.readouterr().out
    assert file.exists() == bool(original)
    call(line, file)
    first = file.read_text()
    assert first.count(command) == 2, "both names"
    assert "krun" in first and "kontain" in first
    if original:
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert (tmp_path / "etc/deep/file.krun-orig").read_text() == original
    capsys.readouterr()
    call(line, file)
    assert file.read_text() == first and "nothing to change" in capsys.readouterr().out
    call(f"uninstall {engine}", file)
    if not original:
        assert not file.exists()
    elif engine == "docker":
        assert json.loads(file.read_text()) == json.loads(original)
    else:
        assert file.read_text() == original
    call(f"uninstall {engine}", file)
    left = sorted(path.name for path in file.parent.iterdir())
    assert not [name for name in left if name.endswith("-new")]


def test_a_new_path_replaces_the_old(tmp_path, command):
    file = tmp_path / "config.toml"
    call(f"install --path {command} containerd", file)
    call("install --path /bin/true containerd", file)
    assert command not in file.read_text()
    table = tomllib.loads(file.read_text())["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert table["krun"]["options"]["BinaryName"] == "/bin/true"


def test_containerd_versions(tmp_path, command):
    text = 'version = 3\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]\nSystemdCgroup = true\n'
    new = tomllib.loads(install.containerd_text(text, command, False))
    runtimes = new["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert runtimes["krun"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"BinaryName": command, "SystemdCgroup": True},
    }
    for bad, words in (
        ("[plugins]\n", "configuration version 1"),
        ("version = 2\n[", "invalid TOML"),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes]\nkrun = {}\n', "already"),
        ('version = 2\n[plugins."io.containerd.grpc.v1.cri"]\ncontainerd = {x = 1}\n', "invalid TOML"),
        ("version = 2\n" + install._BEGIN, "no end line"),
    ):
        with pytest.raises(KrunError, match=words):
            install.containerd_text(bad, command, False)


def test_docker_keeps_what_it_does_not_know(command):
    old = (
        '{\n\t"a": [1, {"b": null}],\n\t"runtimes": {"krun": {"path": "/old", "runtimeArgs": ["--debug"]}}\n}'
    )
    new = install.docker_text(old, command, True)
    assert '\n\t"a"' in new
    config = json.loads(new)
    assert config["a"] == [1, {"b": None}]
    assert config["runtimes"]["krun"] == {"path": command, "runtimeArgs": ["--debug"]}
    assert config["default-runtime"] == "krun"
    assert json.loads(install.docker_text(new, None, False)) == {"a": [1, {"b": None}]}
    with pytest.raises(KrunError, match="invalid JSON at line 1"):
        install.docker_text("{x}", command, False)


def test_default_of_the_others(command):
    assert tomllib.loads(install.podman_text("", command, True))["engine"]["runtime"] == "krun"
    assert tomllib.loads(install.crio_text("", command, True))["crio"]["runtime"]["default_runtime"] == "krun"


def test_a_file_that_is_not_understood_stays(tmp_path, command):
    file = tmp_path / "daemon.json"
    file.write_text("{oops")
    with pytest.raises(KrunError, match="nothing was changed"):
        call(f"install --path {command} docker", file)
    assert file.read_text() == "{oops"
    assert sorted(os.listdir(tmp_path)) == ["bin", "daemon.json"]


def test_a_link_stays_a_link(tmp_path, command):
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "daemon.json").symlink_to("real.json")
    call(f"install --path {command} docker", tmp_path / "daemon.json")
    assert (tmp_path / "daemon.json").is_symlink()
    assert command in (tmp_path / "real.json").read_text()


def test_errors(tmp_path, command):
    with pytest.raises(UsageError, match='unknown engine "nope"'):
        call("install nope", tmp_path / "x")
    with pytest.raises(KrunError, match="/nope/krun is not an executable file"):
        call("install --path /nope/krun podman", tmp_path / "x")
