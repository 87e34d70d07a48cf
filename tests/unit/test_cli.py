"""One table, two readers: the same command lines to both; and the words of wrong ones."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from krun.__main__ import state_root
from krun.cli import app, completion, fast, manpages, options, table, verbs, version
from krun.errors import KrunError, UsageError

ROOT = Path(__file__).parents[2]

# The command lines of callers: recorded from running engines, or taken from their sources.
CALLS = [
    # podman and conmon
    "--log-format=json --log=/b/oci-log create --bundle /b --pid-file /b/pidfile ID",
    "--systemd-cgroup create --bundle /b --pid-file /b/p --no-pivot --no-new-keyring --preserve-fds 2 ID",
    "--cgroup-manager disabled --log-format=json --log /l create --bundle /b --pid-file /p --console-socket /s ID",
    "start ID",
    "exec --pid-file /p --process /x.json --detach --tty --console-socket /s ID",
    "--log-format=json --log=/l exec --pid-file /p --process /x.json --detach --preserve-fds 1 ID",
    "kill ID 15",
    "kill --all ID 9",
    "delete --force ID",
    "pause ID",
    "resume ID",
    "update --resources=/tmp/r ID",
    # containerd and dockerd
    "--root /run/containerd/runc/k8s.io --log /l --log-format json create --bundle /b --pid-file /b/init.pid ID",
    "--root /r --log /l --log-format json --systemd-cgroup start ID",
    "--root /r --log /l --log-format json exec --process /tmp/runc-process1 --detach --pid-file /p ID",
    "--root /r --log /l --log-format json ps --format json ID",
    "--root /r --log /l --log-format json update --resources=- ID",
    "--root /r --log /l --log-format json delete ID",
    "--root /r --log /l --log-format json events --interval=5s ID",
    "--root /r --rootless=true events --stats ID",
    "features",
    "list --format=json",
    # CRI-O
    "--root=/run/runc state ID",
    "--root /run/runc kill -a ID KILL",
    "--root /run/runc exec --process /f ID",
    "--root /run/runc update --resources - ID",
    "exec -d --console-socket=/s --tty --pid-file=/f ID cmd -x --flag=1 --",
    # people
    "--debug run -b /b ID",
    "-debug=true -root /x run -detach -bundle=/b ID",
    "run --keep=false ID -d",
    "exec -e A=1 --env B=2 -c CAP_CHOWN -u 1:2 -g 3 -g 4 ID ls -la",
    "exec -t ID -- ls",
    "exec ID",
    "kill ID",
    "kill ID SIGTERM",
    "kill ID -9",
    "delete -r .*",
    "-s list -q",
    "ps ID aux -f",
    "update --memory -1 --cpu-quota -1 --cpu-shares 5 ID",
    "spec --rootless --bundle x",
    "state -- ID",
    "create --config /c --dry-run ID",
    "events --stats=false ID",
    "install --dry-run podman",
    "man",
]


def plain(found):
    row, opts = found
    return row.name, dict(vars(opts))


@pytest.mark.parametrize("call", CALLS)
def test_both_readers_agree(call):
    argv = call.split()
    quick = fast.parse(argv)
    assert quick is not None, "the fast reader must know every call of an engine"
    assert plain(quick) == plain(app.parse(argv))


@pytest.mark.parametrize(
    ("call", "words", "code"),
    [
        ("nope", "No help topic for 'nope'", 3),
        ("--nope", "flag provided but not defined: -nope", 1),
        ("-nope", "flag provided but not defined: -nope", 1),
        ("state", 'krun: "state" requires exactly 1 argument(s)', 1),
        ("state a b", 'krun: "state" requires exactly 1 argument(s)', 1),
        ("list a", 'krun: "list" requires exactly 0 argument(s)', 1),
        ("exec", 'krun: "exec" requires a minimum of 1 argument', 1),
        ("kill", 'krun: "kill" requires a minimum of 1 and a maximum of 2 argument(s)', 1),
        ("kill a b c", "requires a minimum of 1 and a maximum of 2", 1),
        ("state --nope x", "flag provided but not defined: -nope", 1),
        ("create --bundle", "flag needs an argument: -bundle", 1),
        ("--root", "flag needs an argument: -root", 1),
        ("restore --lsm-mount-context", "flag needs an argument: -lsm-mount-context", 1),
        ("create --preserve-fds x ID", 'invalid value "x" for flag -preserve-fds: parse error', 1),
        ("create --preserve-fds 1_0 ID", "parse error", 1),
        ("list -q=x", 'invalid boolean value "x" for -q: parse error', 1),
    ],
)
def test_wrong_calls(call, words, code):
    argv = call.split()
    assert fast.parse(argv) is None
    with pytest.raises(UsageError) as error:
        app.parse(argv)
    assert words in error.value.message
    assert error.value.exit_code == code


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("", "Usage:"),
        ("--help", "Usage:"),
        ("help kill", "krun kill"),
        ("kill --help", "--all"),
        ("--version", "krun version "),
    ],
)
def test_help_goes_to_standard_output(call, words, capsys):
    assert fast.parse(call.split()) is None
    assert app.parse(call.split()) == 0
    assert words in capsys.readouterr().out


def test_version_as_dockerd_reads_it():
    lines = version.text().splitlines()
    assert lines[0].split()[1] == "version"
    label, _, commit = lines[1].partition(": ")
    assert label == "commit"
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    assert commit == done.stdout.strip() or (done.returncode and commit), done
    assert lines[2] == "spec: 1.3.0"


def test_the_commit_of_a_repository(tmp_path):
    """A clone, one with packed refs, a worktree, a detached head; without a repository what the build has written."""

    def git(*words, cwd=tmp_path / "a"):
        base = ["git", "-c", "user.name=x", "-c", "user.email=x", "-c", "safe.directory=*"]
        return subprocess.run(
            [*base, *words], cwd=cwd, check=True, capture_output=True, text=True
        ).stdout.strip()

    (tmp_path / "a").mkdir()
    assert version.commit(str(tmp_path / "a")) == ""
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "x")
    head = git("rev-parse", "HEAD")
    assert version.commit(str(tmp_path / "a")) == head
    git("pack-refs", "--all")
    assert version.commit(str(tmp_path / "a")) == head
    git("worktree", "add", "-q", "../b")
    assert version.commit(str(tmp_path / "b")) == head
    git("checkout", "-q", "--detach")
    assert version.commit(str(tmp_path / "a")) == head


@pytest.mark.parametrize("row", verbs.VERBS, ids=lambda row: row.name)
def test_rows_are_sound(row):
    module, _, function = row.call.partition(":")
    assert module.startswith("krun.") and function
    assert row.help and not row.help.endswith(".")
    names = [word for flag in row.flags for word in flag.names]
    assert len(names) == len(set(names))
    for flag in row.flags + table.GLOBALS:
        assert flag.kind in ("bool", "str", "int", "list")
        assert flag.default is (False if flag.kind == "bool" else None)
        assert flag.dialect.split()[-1] in ("runc", "crun", "both", "krun")
        assert flag.help and flag.names
    assert [how for _, how in row.words][:-1].count("rest") == 0
    assert isinstance(row.hot, bool)


def test_options_has_the_attributes_of_the_table():
    """What mypy knows of a command line is what the readers set."""
    kinds = {"bool": "bool", "str": "str | None", "int": "int | None", "list": "list[str]"}
    places = {"one": "str", "one.": "str", "opt": "str | None", "rest": "list[str]"}
    wanted: dict[str, set[str]] = {"t0": {"int"}, "logger": {"Log"}, "settings": {"Settings"}}
    for row in verbs.VERBS:
        for flag in (*table.GLOBALS, *row.flags):
            wanted.setdefault(table.attribute(flag), set()).update(kinds[flag.kind].split(" | "))
        for name, how in row.words:
            wanted.setdefault(name, set()).update(places[how].split(" | "))
    wanted["root"] = {"str"}  # __main__ gives it its default
    tree = ast.parse(Path(options.__file__).read_text())
    known = {
        node.target.id: set(ast.literal_eval(node.annotation).split(" | "))
        for body in tree.body
        if isinstance(body, ast.ClassDef) and body.name == "Options"
        for node in ast.walk(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert known == wanted


def test_lists_are_not_shared():
    first = fast.parse("exec -e A=1 ID".split())[1]
    second = fast.parse("exec ID".split())[1]
    assert first.env == ["A=1"] and second.env == []


def test_state_root(monkeypatch):
    def root(**values):
        opts = table.blank(verbs.verb("list"))
        for key, value in values.items():
            setattr(opts, key, value)
        return state_root(opts)

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert root() == "/run/krun"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    assert root() == "/run/krun"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setattr("os.geteuid", lambda: 7)
    assert root() == "/run/user/7/krun"
    assert root(root="/x/../y/") == "/y"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert root(rootless="true") == "/run/user/7/krun"
    with pytest.raises(KrunError, match="must not be /"):
        root(root="//")


def run(*argv, **more):
    return subprocess.run(
        [sys.executable, "-m", "krun", *argv], cwd=ROOT, capture_output=True, text=True, **more
    )


@pytest.mark.parametrize("verb", ["checkpoint", "restore"])
def test_help_of_what_is_not_implemented(verb):
    """podman takes a help that succeeds for a runtime with checkpoints."""
    done = run(verb, "--help")
    assert done.returncode == 1 and "not yet: " in done.stdout and done.stderr == "", done


def test_exit_codes_and_streams(tmp_path):
    done = run()
    assert done.returncode == 0 and "Usage" in done.stdout and done.stderr == ""
    done = run("nope")
    assert done.returncode == 3 and "No help topic for" in done.stderr
    done = run(
        "--log", str(tmp_path / "log"), "--log-format", "json", "--root", str(tmp_path), "state", "none"
    )
    assert done.returncode == 1
    assert done.stderr == "container does not exist: none\n"
    assert '"msg":"container does not exist: none"' in (tmp_path / "log").read_text()
    done = run("--log", str(tmp_path / "log2"), "state", "--bad")
    assert done.returncode == 1 and "-bad" in (tmp_path / "log2").read_text()


def test_a_reader_that_goes_away():
    done = subprocess.run(
        f"{sys.executable} -m krun features | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


def test_almost_no_environment(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-IS",
            "-c",
            "import sys; sys.path.insert(0, sys.argv.pop(1)); import krun.__main__ as m;m.main()",
            str(ROOT),
            "--root",
            str(tmp_path),
            "list",
            "-q",
        ],
        cwd="/",
        env={"XDG_RUNTIME_DIR": ""},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_manual_pages_and_completion(tmp_path):
    for row in verbs.VERBS:
        page = manpages.page(row)
        assert page.startswith(f".TH KRUN-{row.name.upper()} 8")
        assert f"krun\\-{row.name} \\- " in page
    assert "krun\\-create" in manpages.overview()
    (tmp_path / "c").write_text(completion.bash())
    script = (
        f". {tmp_path}/c; COMP_WORDS=(krun --root /x kill --); COMP_CWORD=4; _krun; echo ${{COMPREPLY[@]}};"
        "COMP_WORDS=(krun sta); COMP_CWORD=1; _krun; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "--all --regex\nstart state\n"
    for text in (completion.zsh(), completion.fish()):
        assert all(row.name in text for row in verbs.VERBS)
