"""/etc/krun/krun.yaml: who may write it, what it may hold, what a wrong one is answered with."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from krun import __main__ as entry
from krun import settings
from krun.errors import KrunError, SysError

ROOT = Path(__file__).parents[2]
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def file(tmp_path):
    folder = tmp_path / "krun"
    folder.mkdir(mode=0o755)
    path = folder / "krun.yaml"
    path.write_text("log: {level: debug, format: json}\nhooks: {allowed: false}\n")
    path.chmod(0o644)
    return path


def test_no_file_is_no_setting(tmp_path):
    found = settings.load(str(tmp_path / "krun" / "krun.yaml"))
    assert (found.log_file, found.log_format, found.log_level, found.hooks_allowed) == (
        None,
        None,
        None,
        True,
    )


@root
def test_values(file):
    found = settings.load(str(file))
    assert (found.log_file, found.log_format, found.log_level, found.hooks_allowed) == (
        None,
        "json",
        "debug",
        False,
    )


@root
def test_only_root_may_change_it(file):
    os.chown(file, 1000, 0)
    with pytest.raises(KrunError, match=f"{file}: owned by uid 1000; chown root:root {file}"):
        settings.load(str(file))
    os.chown(file, 0, 0)
    file.chmod(0o664)
    with pytest.raises(KrunError, match="mode 0664 lets others write; chmod go-w"):
        settings.load(str(file))
    file.chmod(0o644)
    file.parent.chmod(0o777)
    with pytest.raises(KrunError, match=f"{file.parent}: mode 0777 lets others write"):
        settings.load(str(file))


@root
def test_a_link_or_a_fifo_is_refused(file):
    other = file.with_name("real")
    file.rename(other)
    file.symlink_to(other)
    with pytest.raises(SysError, match="too many"):
        settings.load(str(file))
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(KrunError, match="not a regular file"):
        settings.load(str(file))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("log: {levle: debug}", "unknown key log.levle; use log.file, log.format"),
        ("native: {programs: []}", "unknown key native.programs"),
        ("log: {level: loud}", "log.level is 'loud'; use error, warning, debug"),
        ("log: {level: 1}", "log.level must be a string"),
        ("hooks: {allowed: 'no'}", "hooks.allowed must be true or false"),
        ("calls: {local: sometimes}", "calls.local is 'sometimes'; use off, on, auto"),
        ("calls: {local: 1}", "calls.local must be a string"),
        ("calls: {sockets: auto}", "calls.sockets is 'auto'; use off, on"),
        ("hooks: no", "hooks must be a mapping"),
        ("- a", "must be a mapping"),
        ("a: [", "not YAML"),
        ("log: {file: here}", "log.file must be an absolute path"),
        ("!!python/object/apply:os.system ['false']", "not YAML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(text, words):
    with pytest.raises(KrunError, match=re.escape(words)) as caught:
        settings.parse(text.encode(), "/etc/krun/krun.yaml")
    assert str(caught.value).startswith("read configuration /etc/krun/krun.yaml: ")
    assert "\n" not in str(caught.value)


def test_an_empty_file_is_no_setting():
    found = settings.parse(b"# nothing\n", "x")
    assert found.hooks_allowed is True and (found.calls_local, found.calls_sockets) == ("auto", "on")


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", "on"), ("off", "off"), ("auto", "auto"), ("'on'", "on"), ("true", "on"), ("no", "off")],
)
def test_calls_local(text, value):
    """YAML 1.1 has booleans of many names."""
    assert settings.parse(f"calls: {{local: {text}}}".encode(), "x").calls_local == value


def test_calls_sockets():
    assert settings.parse(b"calls: {sockets: off}", "x").calls_sockets == "off"


@root
def test_commands_of_a_container_use_it(file, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(settings, "PATH", str(file))
    line = ["--root", str(tmp_path / "s")]
    assert entry.run([*line, "state", "box"]) == 1
    assert capfd.readouterr().err.startswith('{"level":"error"'), "log.format"
    assert entry.run([*line, "--log-format", "text", "state", "box"]) == 1
    assert capfd.readouterr().err.startswith('time="'), "the command line goes before the file"
    file.write_text(f"log: {{file: {tmp_path}/log}}")
    assert entry.run([*line, "state", "box"]) == 1
    assert "does not exist" in (tmp_path / "log").read_text()
    file.write_text("log: {level: loud}")
    assert entry.run([*line, "--log", str(tmp_path / "other"), "state", "box"]) == 1
    assert "log.level" in (tmp_path / "other").read_text(), "engines look for the reason in --log"
    entry.run([*line, "doctor"])
    out = capfd.readouterr().out
    assert re.search(r"error +configuration +read configuration .*log.level", out), out


@root
def test_hooks_may_be_forbidden(file, tmp_path, monkeypatch, capfd):
    import json

    from krun.oci import spec_cmd

    monkeypatch.setattr(settings, "PATH", str(file))
    config = spec_cmd.example(False)
    config["process"]["terminal"] = False
    config["hooks"] = {"poststop": [{"path": "/bin/true"}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "rootfs").mkdir()
    line = ["--root", str(tmp_path / "s"), "create", "--dry-run", "--bundle", str(tmp_path), "box"]
    assert entry.run(line) == 1
    assert "administrator allows none (hooks.allowed in" in capfd.readouterr().err
    file.unlink()
    assert entry.run(line) == 0


def test_the_page_has_every_key():
    page = (ROOT / "docs/configuration.md").read_text()
    assert re.findall(r"^\| `([a-z.]+)` \|", page, re.M) == [row[0] for row in settings.KEYS]
