"""SELinux labels and AppArmor profiles: what is written where. No machine here has either module on."""

from __future__ import annotations

import os

import pytest

from krun.errors import KrunError, SysError
from krun.log import Log
from krun.oci import labels, masks, mountopts, mounts, places
from krun.oci.spec import Mount, Process, Spec
from krun.oci.steps import Context, labelled

LABEL = "system_u:object_r:container_file_t:s0:c1,c2"


@pytest.fixture
def ctx(tmp_path):
    """A context whose procfs is a directory with the files of attr."""
    process = Process({})
    context = Context(Spec({}, "/", b""), process, "x")
    for path in ("self/attr/apparmor", "self"):
        os.makedirs(tmp_path / path, exist_ok=True)
    for path in ("self/attr/exec", "self/attr/apparmor/exec"):
        (tmp_path / path).write_text("")
    context.proc = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield context
    os.close(context.proc)


def test_an_apparmor_profile_at_the_next_exec(ctx, tmp_path):
    labels.SetAppArmor("krun-default").execute(ctx)
    assert (tmp_path / "self/attr/apparmor/exec").read_text() == "exec krun-default"
    assert (tmp_path / "self/attr/exec").read_text() == ""


def test_apparmor_of_an_older_kernel(ctx, tmp_path):
    os.unlink(tmp_path / "self/attr/apparmor/exec")
    labels.SetAppArmor("unconfined").execute(ctx)
    assert (tmp_path / "self/attr/exec").read_text() == "exec unconfined"


@pytest.mark.parametrize(
    ("errno", "text"),
    [
        (2, "write /proc/self/attr/apparmor/exec: no such file or directory: the profile foo is not loaded"),
        (13, "write /proc/self/attr/apparmor/exec: permission denied"),
    ],
)
def test_what_apparmor_refuses(ctx, monkeypatch, errno, text):
    def refuse(ctx, path, text, op):
        raise SysError(op, text, errno)

    monkeypatch.setattr(labels, "write_proc", refuse)
    with pytest.raises(SysError) as caught:
        labels.SetAppArmor("foo").execute(ctx)
    assert str(caught.value) == f"apparmor failed to apply profile: {text}"


def test_a_selinux_label_at_the_next_exec(ctx, tmp_path):
    labels.SetSelinux("u:r:container_t:s0").execute(ctx)
    assert (tmp_path / "self/attr/exec").read_text() == "u:r:container_t:s0"


def test_what_selinux_refuses(ctx, monkeypatch):
    def refuse(ctx, path, text, op):
        raise SysError(op, text, 22)

    monkeypatch.setattr(labels, "write_proc", refuse)
    with pytest.raises(SysError) as caught:
        labels.SetSelinux("x").execute(ctx)
    assert str(caught.value) == "can't set process label: write /proc/self/attr/exec: invalid argument"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_mount_label_counts_where_selinux_is_on(monkeypatch, enabled):
    monkeypatch.setattr(os, "access", lambda path, mode: enabled)
    assert labels.check_lsm(Process({}), LABEL, Log()) == (LABEL if enabled else "")
    process = Process({"selinuxLabel": "u:r:t:s0"})
    if enabled:
        assert labels.check_lsm(process, "", Log()) == ""
    else:
        with pytest.raises(KrunError, match="selinux label is specified in config, but selinux is disabled"):
            labels.check_lsm(process, "", Log())


def test_context_is_an_option_unless_there_is_one():
    assert labelled([("mode", "755")], LABEL) == [("mode", "755"), ("context", LABEL)]
    assert labelled([("mode", "755")], "") == [("mode", "755")]
    for key in ("context", "rootcontext", "fscontext", "defcontext"):
        assert labelled([(key, "other")], LABEL) == [(key, "other")]


class Made(Exception):
    """Carries the options of the file system that was to be made."""


@pytest.fixture
def made(monkeypatch):
    def new_mount(kind, data, attrs, name):
        raise Made(kind, dict(data))

    for module in (mounts, masks):
        monkeypatch.setattr(module, "new_mount", new_mount)
    for name in ("directory", "plain_directory"):
        monkeypatch.setattr(places, name, lambda ctx, path, what="": os.open("/", os.O_PATH))


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("tmpfs", True),
        ("devpts", True),
        ("overlay", True),
        ("proc", False),
        ("sysfs", False),
        ("mqueue", False),
    ],
)
def test_which_file_systems_get_it(ctx, made, kind, label):
    ctx.mount_label = LABEL
    step = mounts.FsMount(Mount({"destination": "/x", "type": kind}), mountopts.parse([]), 0)
    with pytest.raises(Made) as caught:
        step.execute(ctx)
    assert caught.value.args[0] == kind
    assert caught.value.args[1].get("context") == (LABEL if label else None)


def test_the_empty_directory_of_masks_gets_it(ctx, made, monkeypatch):
    ctx.mount_label = LABEL
    monkeypatch.setattr(places, "find_all", lambda ctx, path: [os.open("/", os.O_PATH)])
    with pytest.raises(Made) as caught:
        masks.MaskPaths(["/proc/acpi"]).execute(ctx)
    assert caught.value.args[1]["context"] == LABEL


def test_the_keyring_is_made_with_the_programs_label(monkeypatch):
    said = []
    monkeypatch.setattr(labels, "write_host_proc", lambda path, text: said.append((path, text)))
    monkeypatch.setattr(labels.JoinKeyring, "_join", lambda self: said.append("join"))
    labels.JoinKeyring("x", "u:r:container_t:s0").execute(Context(Spec({}, "/", b""), Process({}), "x"))
    path = "thread-self/attr/keycreate"
    assert said == [(path, "u:r:container_t:s0"), "join", (path, "")]


def test_the_keyring_of_exec_is_labelled_by_a_procfs_of_kruns(ctx, tmp_path, monkeypatch):
    """/proc is the container's then: what lies there may lead anywhere."""
    said = []
    attr = tmp_path / "thread-self" / "attr"
    attr.mkdir(parents=True)
    (attr / "keycreate").write_text("")
    monkeypatch.setattr(labels, "write_host_proc", None)
    monkeypatch.setattr(
        labels.JoinKeyring, "_join", lambda self: said.append((attr / "keycreate").read_text())
    )
    labels.JoinKeyring("x", "u:r:container_t:s0").execute(ctx)
    assert said == ["u:r:container_t:s0"]
