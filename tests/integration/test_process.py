"""process.*: what the program finds of its user, capabilities, limits and descriptors."""

import os
import shutil

import pytest
from guest import build as guest
from helpers.bundle import CAPABILITIES, Bundle
from helpers.runtime import Runtime


def status(text):
    """/proc/self/status as a dictionary."""
    return {k: v.strip() for k, _, v in (line.partition(":") for line in text.splitlines())}


def test_user_groups_and_umask(runtime, bundle):
    bundle.process["user"] = {"uid": 1000, "gid": 1001, "additionalGids": [5, 1002], "umask": 0o27}
    done = runtime.run(bundle.shell("id -u; id -g; id -G; umask; cat /proc/self/status")).ok()
    lines = done.out.splitlines()
    assert lines[:2] == ["1000", "1001"] and sorted(lines[2].split()) == ["1001", "1002", "5"]
    assert lines[3] == "0027"
    assert status(done.out)["Uid"].split() == ["1000"] * 4 and status(done.out)["Gid"].split() == ["1001"] * 4


def test_the_callers_umask_is_not_the_programs(runtime, bundle):
    """A further process has its caller's, with runc as well."""
    found = []
    for mask in (0, 0o077):
        before = os.umask(mask)
        try:
            found.append(runtime.run(bundle.shell("umask")).ok().out)
        finally:
            os.umask(before)
    assert found == ["0022\n", "0022\n"]


CAP_BITS = {
    "CAP_CHOWN": 0,
    "CAP_KILL": 5,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_AUDIT_WRITE": 29,
    "CAP_SYS_ADMIN": 21,
}


def mask(*names):
    return f"{sum(1 << CAP_BITS[n] for n in names):016x}"


def test_capabilities_of_root(runtime, bundle):
    seen = status(runtime.run(bundle.args("cat", "/proc/self/status")).ok().out)
    assert seen["CapBnd"] == seen["CapPrm"] == seen["CapEff"] == mask(*CAPABILITIES)


def test_five_capability_sets(runtime, bundle):
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    bundle.process["capabilities"] = {
        "bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_NET_BIND_SERVICE"],
        "permitted": ["CAP_CHOWN", "CAP_KILL"],
        "effective": ["CAP_KILL"],
        "inheritable": ["CAP_KILL"],
        "ambient": ["CAP_KILL"],
    }
    seen = status(runtime.run(bundle.args("cat", "/proc/self/status")).ok().out)
    assert seen["CapBnd"] == mask("CAP_CHOWN", "CAP_KILL", "CAP_NET_BIND_SERVICE")
    # After execve without root: only what is ambient.
    assert seen["CapPrm"] == seen["CapEff"] == seen["CapAmb"] == seen["CapInh"] == mask("CAP_KILL")


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_ambient_capabilities_that_cannot_be_raised(runtime, bundle, user):
    """runc 1.1 says nothing; the program runs without them with every runtime."""
    if user:
        maps = [{"containerID": 0, "hostID": 0, "size": 65536}]
        bundle.namespaces(add=("user",)).linux.update(uidMappings=maps, gidMappings=maps)
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    names = ["CAP_CHOWN", "CAP_KILL", "CAP_NET_BIND_SERVICE"]
    bundle.process["capabilities"] = {
        **dict.fromkeys(("bounding", "ambient"), names),
        "permitted": names[:2],
        "effective": [],
        "inheritable": names[1:],
    }
    done = runtime.run(bundle.args("grep", "CapAmb", "/proc/self/status")).ok()
    lost = "[CAP_CHOWN CAP_NET_BIND_SERVICE]"
    assert (
        f"cannot raise ambient capabilities: {lost}: they must be permitted and inheritable, too" in done.err
    )
    assert done.out.split()[1] == mask("CAP_KILL")


SETS = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_DAC_OVERRIDE", "CAP_KILL"]


@pytest.mark.parametrize(
    ("uid", "gid", "groups", "uids", "nnp", "ambient"),
    [
        (0, 0, [], 0, False, SETS),
        (0, 7, [5], 0, True, []),
        (1000, 1000, [], 0, False, []),
        (1000, 5, [7], 0, True, SETS),
        (1000, 5, [7], 65536, True, SETS),
        (65533, 65534, [], 65536, False, SETS),
        (0, 0, [], 65536, False, []),
        (0, 0, [], 1, True, SETS),
    ],
)
def test_credentials_are_those_of_runc(as_root, tmp_path, uid, gid, groups, uids, nnp, ambient):
    """All ids and sets, whatever the saved and the file system id were on the way (krun/oci/init.py, _conceal).

    uids: how many a user namespace has, 0: none is made.
    """
    seen = []
    for name in ("runc", "krun"):
        runtime = Runtime(name, tmp_path / name)
        bundle = Bundle(tmp_path / name / "bundle").args("cat", "/proc/self/status")
        if uids:
            bundle.namespaces(add=("user",))
            for kind, size in (("uidMappings", uids), ("gidMappings", 65536)):
                bundle.linux[kind] = [{"containerID": 0, "hostID": 100000, "size": size}]
            for folder in bundle.path.parents:
                if not folder.stat().st_mode & 0o001:
                    folder.chmod(folder.stat().st_mode | 0o011)
        bundle.process["user"] = {"uid": uid, "gid": gid, "additionalGids": groups}
        bundle.process["noNewPrivileges"] = nnp
        for kind in ("bounding", "effective", "permitted"):
            bundle.process["capabilities"][kind] = SETS
        for kind in ("inheritable", "ambient"):
            bundle.process["capabilities"][kind] = ambient
        try:
            found = status(runtime.run(bundle).ok().out)
        finally:
            runtime.clean()
        seen.append(
            {k: v for k, v in found.items() if k in ("Uid", "Gid", "Groups", "NoNewPrivs") or k[:3] == "Cap"}
        )
    assert seen[0] == seen[1]


def test_no_capabilities(runtime, bundle):
    bundle.process["capabilities"] = {}
    seen = status(runtime.run(bundle.args("cat", "/proc/self/status")).ok().out)
    assert seen["CapBnd"] == seen["CapEff"] == mask()
    bundle.shell("chown 1:1 /etc/passwd")
    assert runtime.run(bundle).status != 0


@pytest.mark.parametrize("value", [True, False])
def test_no_new_privileges(runtime, bundle, value):
    bundle.process["noNewPrivileges"] = value
    seen = status(runtime.run(bundle.args("cat", "/proc/self/status")).ok().out)
    assert seen["NoNewPrivs"] == str(int(value))


def test_rlimits(runtime, bundle):
    bundle.process["rlimits"] = [
        {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200},
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
        {"type": "RLIMIT_STACK", "soft": 4 << 20, "hard": 16 << 20},
        {"type": "RLIMIT_FSIZE", "soft": 4096, "hard": 8192},
    ]
    done = runtime.run(bundle.shell("cat /proc/self/limits; ulimit -n; ulimit -Hn; ulimit -s")).ok()
    lines = {line[:26].strip(): line[26:].split()[:2] for line in done.out.splitlines() if line[:3] == "Max"}
    assert lines["Max open files"] == ["100", "200"] and lines["Max core file size"] == ["0", "0"]
    assert lines["Max stack size"] == [str(4 << 20), str(16 << 20)] and lines["Max file size"] == [
        "4096",
        "8192",
    ]
    assert done.out.splitlines()[-3:] == ["100", "200", "4096"]


def test_threads_take_turns_where_descriptors_are_few(runtime, bundle):
    """A vCPU needs a descriptor below the hard limit; threads that only compute have to share what there is."""
    bundle.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}]
    chosen = guest.programs(["lim_nofile_spin"])
    guest.build(chosen)
    shutil.copy2(chosen[0].binary("static"), bundle.rootfs / "spin")
    assert runtime.run(bundle.args("/spin")).ok().out == "EMFILE\n6 threads met\n"


def test_rlimit_that_is_refused(runtime, bundle):
    bundle.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 1 << 30}]  # above fs.nr_open
    done = runtime.run(bundle)
    assert done.status == 1 and "operation not permitted" in done.err, done
    if runtime.name == "krun":
        assert (
            "RLIMIT_NOFILE (soft 1, hard 1073741824)" in done.err and "lower process.rlimits" in done.err
        ), done


def test_an_empty_home_counts_as_none(runtime, bundle):
    bundle.process["env"] = ["PATH=/bin", "HOME="]
    assert runtime.run(bundle.shell("echo $HOME")).ok().out == "/root\n"


def test_unknown_rlimit(runtime, bundle):
    bundle.process["rlimits"] = [{"type": "RLIMIT_NOSUCH", "soft": 1, "hard": 1}]
    done = runtime.run(bundle)
    assert done.status == 1 and "RLIMIT_NOSUCH" in done.err, done


@pytest.mark.parametrize("value", [0, 100, 1000])
def test_oom_score_adj(runtime, bundle, value):
    bundle.process["oomScoreAdj"] = value
    assert runtime.run(bundle.args("cat", "/proc/self/oom_score_adj")).ok().out == f"{value}\n"


def test_descriptors_are_the_three(runtime, bundle):
    out = runtime.run(bundle.args("ls", "/proc/self/fd")).ok().out
    # The fourth is ls's own.
    assert out.split() == ["0", "1", "2", "3"]


def test_preserved_descriptors(runtime, bundle):
    """--preserve-fds N: N descriptors after the three, no more."""
    import os
    import subprocess

    ends = os.pipe()
    argv = [str(runtime.path), "--root", str(runtime.root), "run", "--preserve-fds", "1"]
    container = runtime.new(bundle.shell("echo into pipe >&3; ls /proc/self/fd"))
    argv += ["--bundle", str(bundle.write()), container.id]
    os.dup2(ends[1], 3) if ends[1] != 3 else None
    code = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3, inheritable=True); os.set_inheritable(3, True);"
        " os.execv(sys.argv[2], sys.argv[2:])"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-c", code, str(ends[1]), *argv],
        pass_fds=(ends[1],),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=runtime.environment,
    )
    os.close(ends[1])
    assert done.returncode == 0, done
    assert os.read(ends[0], 100) == b"into pipe\n"
    assert done.stdout.split()[:4] == [b"0", b"1", b"2", b"3"]
    os.close(ends[0])


ACTIVATE = (
    "import os, sys; w = os.pipe()[1]; os.dup2(w, 3); os.set_inheritable(3, True);"
    " pid = {'own': str(os.getpid()), 'other': '1', 'none': None}[sys.argv[1]];"
    " os.environ.update({'LISTEN_FDS': '1'} | ({'LISTEN_PID': pid} if pid else {})); os.execv(sys.argv[2], sys.argv[2:])"
)


@pytest.mark.parametrize("verb", ["run", "exec"])
@pytest.mark.parametrize("pid", ["own", "other", "none"])
def test_socket_activation(runtime, bundle, verb, pid, observe):
    """LISTEN_FDS of sd_listen_fds(3): of run, where LISTEN_PID is the runtime's; never of exec."""
    import subprocess

    script = "env | grep LISTEN; ls /proc/self/fd"
    if verb == "run":
        container = runtime.new(bundle.shell(script))
        words = ["run", "--bundle", str(bundle.write()), container.id]
    else:
        container = runtime.start(bundle.args("sleep", "1000"))
        words = ["exec", container.id, "sh", "-c", script]
    argv = ["/usr/bin/python3", "-c", ACTIVATE, pid, str(runtime.path), "--root", str(runtime.root), *words]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=runtime.environment, check=True, text=True
    )
    passed = verb == "run" and pid == "own"
    assert (
        done.stdout.split()
        == ["LISTEN_FDS=1", "LISTEN_PID=1"] * passed + ["0", "1", "2", "3"] + ["4"] * passed
    )
    observe(done.stdout)


def test_hostname_and_domainname(runtime, bundle):
    bundle.config["hostname"] = "some-host"
    assert (
        runtime.run(bundle.shell("hostname; cat /proc/sys/kernel/hostname")).ok().out
        == "some-host\nsome-host\n"
    )


def test_sysctl(runtime, bundle):
    bundle.linux["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.shm_rmid_forced": "1"}
    done = runtime.run(
        bundle.args("cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/shm_rmid_forced")
    )
    assert done.ok().out == "1\n1\n"


def test_sysctl_outside_the_namespaces_is_refused(runtime, bundle):
    bundle.linux["sysctl"] = {"vm.overcommit_memory": "1"}
    done = runtime.run(bundle)
    assert done.status == 1 and "vm.overcommit_memory" in done.err, done


def test_proc_shows_the_program(runtime, bundle):
    """Not what runs it."""
    done = runtime.run(
        bundle.shell("cat /proc/$$/comm; tr '\\0' ' ' </proc/$$/cmdline; echo; readlink /proc/$$/exe")
    ).ok()
    lines = done.out.splitlines()
    assert lines[0] == "sh" and lines[1].startswith("/bin/sh -c cat ") and lines[2] == "/bin/busybox"


def test_ps_inside_shows_the_programs(runtime, bundle):
    # The moment between the monitor's execve and its naming itself is a limit (docs/limits.md): let it pass.
    out = runtime.run(bundle.shell("sleep 1000 & sleep 0.5; ps -o pid,args")).ok().out
    assert "sleep 1000" in out and "krun" not in out.replace("krun-test", "") and "monitor" not in out, out
