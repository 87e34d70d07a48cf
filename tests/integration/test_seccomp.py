"""linux.seccomp: the profile holds for the program's calls."""

import pytest


def profile(default, *rules):
    return {"defaultAction": default, "architectures": ["SCMP_ARCH_X86_64"], "syscalls": list(rules)}


def test_errno(runtime, bundle):
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    done = runtime.run(bundle.shell("mkdir /x || echo refused; touch /y && echo allowed"))
    assert done.ok().out == "refused\nallowed\n" and "No space left" in done.err


def test_default_errno_is_eperm(runtime, bundle):
    rule = {"names": ["chmod", "fchmodat"], "action": "SCMP_ACT_ERRNO"}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    assert "Operation not permitted" in runtime.run(bundle.args("chmod", "700", "/etc")).err


def test_argument_rules(runtime, bundle):
    args = [{"index": 0, "value": 15, "op": "SCMP_CMP_EQ"}]
    rule = {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [{**args[0], "index": 1}]}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    done = runtime.run(bundle.shell("sleep 100 & kill -TERM $! || echo no; kill -KILL $! && echo yes")).ok()
    assert done.out == "no\nyes\n"


def test_kill(runtime, bundle):
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL"}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    done = runtime.run(bundle.shell("mkdir /x; echo status $?"))
    assert done.ok().out == "status 159\n"


def test_it_holds_for_children_and_exec(runtime, bundle):
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    container = runtime.start(bundle.args("sleep", "1000"))
    done = container.exec("sh", "-c", "sh -c 'mkdir /x'")
    assert done.status != 0 and "Operation not permitted" in done.err


def test_the_program_sees_that_it_is_filtered(runtime, bundle):
    rule = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
    bundle.linux["seccomp"] = profile("SCMP_ACT_ALLOW", rule)
    out = runtime.run(bundle.args("grep", "^Seccomp:", "/proc/self/status")).ok().out
    assert out.split() == ["Seccomp:", "2"]


@pytest.mark.parametrize("text", ["SCMP_ACT_NOSUCH"])
def test_unknown_action(runtime, bundle, text):
    bundle.linux["seccomp"] = profile(text)
    done = runtime.run(bundle)
    assert done.status == 1 and text in done.err, done


def test_an_architecture_that_is_none(runtime, bundle):
    bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_NOSUCH"],
        "syscalls": [{"names": ["swapon"], "action": "SCMP_ACT_ERRNO"}],
    }
    done = runtime.run(bundle)
    assert done.status == 1 and "SCMP_ARCH_NOSUCH" in done.err, done


@pytest.mark.parametrize("runtime", ["krun"], indirect=True)
def test_a_listener(runtime, bundle):
    """Ignored without SCMP_ACT_NOTIFY (config-linux.md; runc 1.1 the same); with it: test_seccomp_agent.py."""
    seccomp = bundle.linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/no/such"}
    assert runtime.run(bundle).ok()
    del seccomp["listenerPath"]
    seccomp["listenerMetadata"] = "x"
    done = runtime.run(bundle)
    assert done.status == 1 and "listenerMetadata is set without listenerPath" in done.err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"listenerPath": ""}, "listenerPath is not set"),
        (
            {"syscalls": [{"names": ["write"], "action": "SCMP_ACT_NOTIFY"}]},
            "cannot be used for the write syscall",
        ),
        ({"defaultAction": "SCMP_ACT_NOTIFY"}, "SCMP_ACT_NOTIFY cannot be used as default action"),
    ],
)
def test_a_listener_that_cannot_be(runtime, bundle, change, words):
    """What runc refuses before it looks for the agent, in its words."""
    bundle.linux["seccomp"] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "listenerPath": "/run/no/such",
        "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}],
        **change,
    }
    done = runtime.run(bundle)
    assert done.status == 1 and words in done.err, done
