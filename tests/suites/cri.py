"""Kubernetes' own tests of a container runtime interface: critest against containerd, with runc and with krun as handler.

    cri.py [--focus REGEX] [--build-only]

`go` fetches cri-tools; crictl (tests/integration/test_cri.py uses it) and critest are built below build/cri. The images that
critest pulls are made here, by the names it knows, and served by a registry on the loopback of the engine's network namespace.
The status is 1 if krun fails a test that runc passes and that KNOWN does not explain.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.bundle import make_busybox_root
from helpers.cri import PROGRAMS, TOOLS, Cri, compile_static
from helpers.engines import ENVIRONMENT, remove, runtimes, short_directory
from helpers.images import Image
from helpers.runtime import ROOT

WORK = ROOT / "build" / "cri"
MODULE = "github.com/kubernetes-sigs/cri-tools@v1.26.1"

#: What krun fails and runc passes, by a part of the test's name, with the reason.
KNOWN = {
    "should allow privilege escalation when false": "no set-user-id: the monitor runs with no_new_privs (docs/limits.md)",
}


#: Program to go's words that build it, before and after the output's name.
COMMANDS = {"crictl": (["build"], "./cmd/crictl"), "critest": (["test", "-c"], "./cmd/critest")}


def build(*names: str) -> None:
    """Build programs of COMMANDS that are not there yet. Errors: SystemExit with the remedy."""
    names = tuple(name for name in names if not (TOOLS / name).exists())
    if not names:
        return
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise SystemExit("cri.py: go is missing: install the package golang-go, or a newer Go")
    environment = {**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], env=environment, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout or "{}")
    if "Dir" not in found:
        raise SystemExit(f"cri.py: {MODULE} cannot be had: {found.get('Error')}")
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(found["Dir"], source, copy_function=shutil.copyfile)
    subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
    shutil.rmtree(source / "vendor", ignore_errors=True)
    # crictl needs four functions of a module that the proxy does not have: term.go has them.
    stand_in = WORK / "kubectl"
    (stand_in / "pkg" / "util" / "term").mkdir(parents=True, exist_ok=True)
    (stand_in / "go.mod").write_text("module k8s.io/kubectl\n\ngo 1.19\n")
    shutil.copy(PROGRAMS / "term.go", stand_in / "pkg" / "util" / "term")
    replace = [go, "mod", "edit", f"-replace=k8s.io/kubectl={stand_in}"]
    subprocess.run(replace, cwd=source, env=environment, check=True)
    TOOLS.mkdir(parents=True, exist_ok=True)
    for name in names:
        words, package = COMMANDS[name]
        subprocess.run(
            [go, *words, "-o", str(TOOLS / f".{name}"), package], cwd=source, env=environment, check=True
        )
        (TOOLS / f".{name}").rename(TOOLS / name)


def busybox_of_critest(root: Path) -> None:
    """The busybox that critest expects: hard links (it masks one name), and what Debian's has not got."""
    make_busybox_root(root)
    for link in (root / "bin").iterdir():
        if link.is_symlink():
            link.unlink()
            os.link(root / "bin" / "busybox", link)
    (root / "var" / "run").mkdir()
    with open(root / "etc" / "passwd", "a") as file:
        file.write("www-data:x:33:33::/var:/bin/sh\nnobody:x:65534:65534::/home:/bin/sh\n")
    for name, script in (
        ("pgrep", 'ps -o pid,comm | while read -r pid name; do [ "$name" != "$1" ] || echo "$pid"; done'),
        ("ipcs", "while read -r _ id _; do echo $id; done </proc/sysvipc/shm"),
    ):
        (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / "bin" / name).chmod(0o755)


def images(work: Path) -> dict[str, Image]:
    """What critest pulls, by path and tag."""
    roots = work / "critest"
    busybox_of_critest(roots / "busybox")
    web = roots / "web"
    shutil.copytree(roots / "busybox", web, symlinks=True)
    compile_static(PROGRAMS / "web.c", web / "bin" / "nginx")
    group = roots / "group"
    shutil.copytree(roots / "busybox", group, symlinks=True)
    (group / "etc" / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\ndefault-user:x:1000:1000::/home:/bin/sh\n"
    )
    (group / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\nin-image:x:50000:default-user\n")
    identity = roots / "identity"
    compile_static(PROGRAMS / "identity.c", identity / "nnp")
    (identity / "nnp").chmod(0o4755)

    def shell(root: str, **config: object) -> Image:
        return Image(root, roots / root, {"Env": ["PATH=/bin:/usr/bin"], **config})

    def numbered(text: str) -> Image:
        return shell("busybox", Cmd=["/bin/sh"], Labels={"test": text})

    staging = "k8s-staging-cri-tools"
    same = numbered("tags")
    found = {
        "e2e-test-images/busybox:1.29-2": shell("busybox", Cmd=["sh"]),
        "e2e-test-images/nginx:1.14-2": shell("web", Entrypoint=["/bin/nginx", "80", "master process"]),
        f"{staging}/hostnet-nginx-amd64:latest": shell("web", Entrypoint=["/bin/nginx", "12003"]),
        "e2e-test-images/httpd:2.4.39-4": shell(
            "web", Cmd=["/bin/sh", "-c", "echo httpd -D FOREGROUND; exec nginx 80"]
        ),
        "e2e-test-images/nonewprivs:1.3": Image("nonewprivs", identity, {"Entrypoint": ["/nnp"]}),
        f"{staging}/test-image-predefined-group:latest": shell("group", Cmd=["sh"], User="1000"),
        f"{staging}/test-image-user-uid:latest": shell("busybox", User="1002"),
        f"{staging}/test-image-user-username:latest": shell("busybox", User="www-data"),
        f"{staging}/test-image-user-uid-group:latest": shell("busybox", User="1003:users"),
        f"{staging}/test-image-user-username-group:latest": shell("busybox", User="www-data:100"),
        f"{staging}/test-image-latest:latest": numbered("latest"),
        f"{staging}/test-image-tag:test": numbered("tag"),
        f"{staging}/test-image-tag:all": numbered("all"),
    }
    found |= {f"{staging}/test-image-{n}:latest": numbered(str(n)) for n in (1, 2, 3)}
    found |= {f"{staging}/test-image-tags:{n}": same for n in (1, 2, 3)}
    return found


def critest(engine: Cri, handler: str, focus: str) -> dict[str, tuple[str, str]]:
    """Run critest; for each test its state and, where it failed, why."""
    endpoint = f"unix://{engine.work}/c.sock"
    report = WORK / f"critest-{handler}.json"
    report.unlink(missing_ok=True)
    argv = [str(TOOLS / "critest"), "--runtime-endpoint", endpoint, "--image-endpoint", endpoint]
    argv += [
        "--runtime-handler",
        handler,
        f"--ginkgo.json-report={report}",
        "--ginkgo.no-color",
        "--ginkgo.seed=1",
    ]
    argv += [f"--ginkgo.focus={focus}"] if focus else []
    with (WORK / f"critest-{handler}.log").open("wb") as log:
        # Its logs of pods and its images' references are under paths of its own in /tmp.
        subprocess.run(
            engine.inside(*argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=ENVIRONMENT,
            cwd=engine.work,
            check=False,
        )
    if not report.exists():
        raise SystemExit(f"cri.py: critest wrote no report, see {WORK}/critest-{handler}.log")
    seen = {}
    for suite in json.loads(report.read_text()):
        for spec in suite["SpecReports"] or []:
            if spec["LeafNodeType"] != "It":
                continue
            name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
            seen[name] = (spec["State"], spec.get("Failure", {}).get("Message", "").split("\n")[0][:300])
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--focus", default="", help="only tests whose name matches")
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    build(*COMMANDS)
    if options.build_only:
        return 0
    work = short_directory("critest")
    engine = None
    seen = {}
    try:
        engine = Cri(work)
        engine.serve(images(work))
        for handler in runtimes():
            begin = time.monotonic()
            seen[handler] = critest(engine, handler, options.focus)
            states = [state for state, _ in seen[handler].values()]
            counts = ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states)))
            print(f"{handler}: {counts} in {time.monotonic() - begin:.0f} s", flush=True)
    finally:
        if engine is not None:
            engine.close()
        remove(work)
    return compare(seen)


def compare(seen: dict[str, dict[str, tuple[str, str]]]) -> int:
    """Print what failed and where the handlers differ; 1 if krun fails what runc passes, unexplained."""
    worse = 0
    for name in sorted({n for states in seen.values() for n in states}):
        states = {handler: tests.get(name, ("absent", "")) for handler, tests in seen.items()}
        if (
            all(state in ("passed", "skipped") for state, _ in states.values())
            and len({s for s, _ in states.values()}) == 1
        ):
            continue
        reason = next((why for part, why in KNOWN.items() if part in name), "")
        if (
            states.get("krun", ("passed", ""))[0] != "passed"
            and states.get("runc", ("passed", ""))[0] == "passed"
            and not reason
        ):
            worse = 1
        print(f"{name}: {', '.join(f'{h} {s}' for h, (s, _) in states.items())}")
        for handler, (_, message) in states.items():
            if message:
                print(f"    {handler}: {message}")
        if reason:
            print(f"    known: {reason}")
    return worse


if __name__ == "__main__":
    sys.exit(main())
