"""tools/runenv.py: which packages and files an image gets, and what it refuses."""

import importlib.util
import json
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "runenv.py"

STATUS = """Package: app
Status: install ok installed
Architecture: amd64
Version: 1.0
Pre-Depends: lib (>= 2) [amd64]
Depends: mailer | nothing, other:any,
 third (= 3)
Conffiles:
 /etc/app.conf 0123456789abcdef0123456789abcdef

Package: lib
Status: install ok installed
Architecture: amd64
Version: 2.0

Package: postbox
Status: install ok installed
Architecture: all
Version: 5
Provides: mailer (= 1)

Package: other
Status: install ok installed
Architecture: all
Version: 1:4

Package: third
Status: install ok installed
Architecture: amd64
Version: 3

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: foreign
Status: install ok installed
Architecture: i386
Version: 1
"""


@pytest.fixture
def runenv(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("runenv", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "dpkg" / "info").mkdir(parents=True)
    (tmp_path / "dpkg" / "status").write_text(STATUS)
    monkeypatch.setattr(module, "DPKG", tmp_path / "dpkg")
    monkeypatch.setattr(module, "BASES", tmp_path / "bases")
    return module


def test_packages_and_all_that_they_depend_on(runenv):
    found = {one.name: one.version for one in runenv.closure(("app",))}
    assert found == {"app": "1.0", "lib": "2.0", "postbox": "5", "other": "1:4", "third": "3"}


@pytest.mark.parametrize("name", ["gone", "foreign", "unknown"])
def test_a_package_that_is_not_installed_is_not_copied(runenv, name):
    assert runenv.closure(("app", name)) is None


def test_a_changed_configuration_file_stays_on_this_machine(runenv, tmp_path, capsys):
    """A base image has the packages' files and nothing that somebody has written into them."""
    (tmp_path / "app.conf").write_text("password=secret")
    (tmp_path / "tool").write_text("tool")
    (tmp_path / "dpkg/info/app.list").write_text(
        f"/.\n{tmp_path}/app.conf\n{tmp_path}/tool\n/usr/share/man\n"
    )
    package = runenv.closure(("app",))[0]._replace(conffiles={f"{tmp_path}/app.conf": "0" * 32})
    assert [path.name for path, _ in runenv.copied([package])] == ["tool"]
    assert "app.conf was changed on this machine" in capsys.readouterr().err


def test_a_damaged_package_is_an_error(runenv, tmp_path):
    (tmp_path / "dpkg/info/app:amd64.list").write_text("/usr/lib/there/is/no/such/file\n")
    with pytest.raises(SystemExit, match="/usr/lib/there/is/no/such/file of package app: it is missing"):
        list(runenv.copied(runenv.closure(("app",))[:1]))


def test_a_layer_has_no_set_user_id_bits_no_times_and_each_name_once(runenv, tmp_path):
    program = tmp_path / "su"
    program.write_text("x")
    program.chmod(0o6755)
    os.mkfifo(tmp_path / "fifo")
    with runenv.Layer(tmp_path / "layer") as layer:
        layer.path(program, "bin/su")
        layer.path(program, "usr/bin/su")
        layer.path(tmp_path / "fifo", "fifo")
    with tarfile.open(tmp_path / "layer") as tar:
        (member,) = tar.getmembers()
    assert (member.name, stat.S_IMODE(member.mode), member.mtime) == ("usr/bin/su", 0o755, 0)


def image(path):
    (entry,) = json.loads((path / "index.json").read_text())["manifests"]
    manifest = json.loads((path / "blobs/sha256" / entry["digest"].partition(":")[2]).read_text())
    config = json.loads((path / "blobs/sha256" / manifest["config"]["digest"].partition(":")[2]).read_text())
    return entry["digest"], manifest, config


def test_an_image_of_a_base_and_a_directory(runenv, tmp_path):
    """Two layers, the second with /app; the same input is the same image."""
    (tmp_path / "source/sub").mkdir(parents=True)
    (tmp_path / "source/server").write_text("program")
    (tmp_path / "source/sub/data").write_text("data")
    runenv.pack("static", tmp_path / "source", tmp_path / "image", [])
    digest, manifest, config = image(tmp_path / "image")
    assert len(manifest["layers"]) == len(config["rootfs"]["diff_ids"]) == len(config["history"]) == 2
    assert config["config"]["Cmd"] == ["/app/server"] and config["config"]["User"] == "65532"
    with tarfile.open(tmp_path / "image/blobs/sha256" / manifest["layers"][1]["digest"][7:]) as tar:
        assert tar.getnames() == ["app", "app/server", "app/sub", "app/sub/data"]
    with tarfile.open(tmp_path / "image/blobs/sha256" / manifest["layers"][0]["digest"][7:]) as tar:
        assert {"tmp", "etc/passwd", "bin", "etc/ssl/certs/ca-certificates.crt"} <= set(tar.getnames())
        assert tar.getmember("tmp").mode == 0o1777
    runenv.pack("static", tmp_path / "source", tmp_path / "image", [])
    assert image(tmp_path / "image")[0] == digest
    runenv.pack("static", tmp_path / "source", tmp_path / "image", ["/app/other", "-x"])
    assert image(tmp_path / "image")[2]["config"]["Cmd"] == ["/app/other", "-x"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_cannot_be_packed_is_refused_and_nothing_is_left(runenv, tmp_path, monkeypatch):
    (tmp_path / "source").mkdir()
    (tmp_path / "image").mkdir()
    (tmp_path / "image/letter").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for source, target, words in (
        ("nowhere", "new", "it is no directory"),
        ("source", "image", "something else is there"),
        ("source", "file", "something else is there"),
        ("source", "source/image", "which it would hold"),
    ):
        with pytest.raises(SystemExit, match=words):
            runenv.pack("static", tmp_path / source, tmp_path / target, [])
    monkeypatch.setitem(runenv.TABLE, "static", runenv.Base("compilers"))
    with pytest.raises(SystemExit, match="has no command; give one behind --"):
        runenv.pack("static", tmp_path / "source", tmp_path / "new", [])
    assert {path.name for path in tmp_path.iterdir()} == {"source", "image", "file", "dpkg", "bases"}
    assert (tmp_path / "image/letter").read_text() == (tmp_path / "file").read_text() == "mine"


def test_the_command_line():
    done = subprocess.run([sys.executable, TOOL, "list"], capture_output=True, text=True)
    assert done.returncode == 0 and "flask   Python with flask and gunicorn" in done.stdout
    done = subprocess.run([sys.executable, TOOL, "make", "cobol"], capture_output=True, text=True)
    assert done.returncode == 2 and "invalid choice: 'cobol'" in done.stderr
