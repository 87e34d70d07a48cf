"""Every attack on the boundary loses: by hand as uid 0 and as uid 1000, some under podman and docker (README.md)."""

import shutil

import pytest
from helpers.bundle import Bundle, make_busybox_root
from helpers.engines import ENGINES, LIMITS, remove, short_directory
from helpers.runtime import Runtime, wait_for

import attacks.attacks as table
from attacks.oracle import Canaries, Monitor, Watcher

IMAGE = "localhost/attacks:test"
BY_HAND = [(a, u) for a in table.ATTACKS for u in a.users]
BY_ENGINE = [(a, u) for a in table.ATTACKS if a.engines for u in a.users]


def name(pair):
    words = (pair[0].name, pair[1].name, *pair[0].args, *(("local",) if pair[0].local else ()))
    return "-".join(words)


@pytest.fixture(scope="module", autouse=True)
def built(as_root):
    table.build()


def test_every_program_has_a_row():
    programs = {p.stem for p in table.HERE.glob("*.c")}
    assert programs == {a.name for a in table.ATTACKS}


@pytest.mark.parametrize("pair", BY_HAND, ids=name)
def test_by_hand(pair, tmp_path):
    attack, user = pair
    assert table.run(attack, user, tmp_path) == []


def test_the_oracle_sees_native_code(tmp_path):
    """The same watcher on a container of runc's."""
    runtime = Runtime("runc", tmp_path)
    try:
        container = runtime.start(Bundle(tmp_path / "bundle").args("sleep", "1000"))
        watcher = Watcher(Monitor(table.ROOT), [container.id])
        watcher.start()
        try:
            wait_for(lambda: watcher.problems, "the watcher says nothing")
        finally:
            seen = watcher.stop()
        assert seen == [f"process {container.pid} executes /bin/busybox, not the monitor"]
    finally:
        runtime.clean()


def test_the_oracle_sees_what_happens_to_canaries():
    canaries = Canaries()
    try:
        assert canaries.problems("") == []
        assert canaries.problems(f"x{canaries.words['secret']}") == ["the contents of secret came out"]
        (canaries.path / "drop" / "made").write_text("")
        assert any("drop/made" in p for p in canaries.problems(""))
    finally:
        canaries.remove()


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, built, tmp_path_factory):
    root = tmp_path_factory.mktemp("attacks") / "rootfs"
    make_busybox_root(root)
    for attack, _ in BY_ENGINE:
        shutil.copy2(table.BUILD / attack.name, root / "bin" / attack.name)
    work = short_directory(f"attacks-{request.param}")
    engine = None
    try:
        engine = ENGINES[request.param](work)
        engine.load(root, IMAGE)
        yield engine
    finally:
        if engine is not None:
            engine.close()
        remove(work)


def watched(engine, attack, user) -> int:
    """Runs an attack, which must not win, in a container of an engine. Returns how often the watcher has seen one of its processes."""
    canaries, monitor = Canaries(), Monitor(table.ROOT)
    who = ["--user", f"{user.uid}:{user.uid}"] + ([] if user.capabilities else ["--cap-drop", "all"])
    for line in table.environment(attack.seconds, canaries.path):
        who += ["--env", line]
    words = ["create", *engine.run_options("krun"), "--network", "none", *LIMITS, *who]
    try:
        id = engine.call(
            "krun", *words, "--security-opt", "no-new-privileges", IMAGE, f"/bin/{attack.name}", *attack.args
        )
        id = id.ok().out.split()[-1]
        watcher = Watcher(monitor, [id])
        watcher.start()
        try:
            done = engine.call("krun", "start", "--attach", id, timeout=attack.seconds + 120)
        finally:
            seen = watcher.stop()
        said = done.out + done.err
        won = seen + table.verdict(done.status, said) + canaries.problems(said)
        assert won == []
        return watcher.samples
    finally:
        engine.call("krun", "rm", "--force", id)
        canaries.remove()


@pytest.mark.engine
@pytest.mark.parametrize("pair", BY_ENGINE, ids=name)
def test_by_engine(engine, pair):
    """With the engine's own defaults (capabilities, seccomp profile, masks) and no_new_privs.

    On a busy machine an attack may have lost before the watcher had a processor: then once more, because it has proven nothing.
    """
    assert any(watched(engine, *pair) for _ in range(4))
