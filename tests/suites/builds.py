"""Image builds: each builder of BUILDERS with runc and with krun on the same Containerfile; the images compared, the times side by side.

    builds.py [--directory DIR] [--rounds N] [BUILDER...]

buildkitd and buildctl of VERSION, and docker-buildx of BUILDX, come from the Go module proxy and are built into DIRECTORY once (3 minutes
each on 2 cores). No builder gets a network: the base is an archive of busybox. The status is 1 if an image differs, or if a builder has not called the runtime.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.bundle import make_busybox_root
from helpers.engines import (
    ENVIRONMENT,
    Containerd,
    Daemon,
    Docker,
    Podman,
    command,
    remove,
    runtimes,
    short_directory,
    tar_of,
)
from helpers.runtime import ROOT, find
from suites.kubernetes import go

VERSION = "0.19.0"
BUILDX = "0.19.3"
WORK = ROOT / "build" / "builds"

#: What every builder can do: shells, users, modes, links, environment, a file that a later step removes, many short programs.
CONTAINERFILE = """FROM scratch AS base
ADD base.tar /
ENV GREETING=hello
WORKDIR /result
RUN ["/bin/sh", "-c", "echo $GREETING from $(id -u) in $PWD >first; hostname >/dev/null; umask >>first; cat /proc/self/cgroup | wc -l >/dev/null"]
RUN for n in 1 2 3 4 5 6 7 8 9 10; do busybox expr $n + 1; done >sums
RUN mkdir -p sub && chmod 3777 sub && ln -s first link && ln first hard && touch gone && mknod fifo p && chown 1000:1000 hard
RUN rm gone; dd if=/dev/zero bs=64k count=64 2>/dev/null | gzip -n | sha256sum >sum; ! ls /nowhere 2>/dev/null
USER 1000:1000
RUN id >sub/id && (echo no >/etc/no) 2>sub/error; test $? != 0
USER 0:0
COPY sent /result/sent
"""
#: For BuildKit in addition: mounts of a step.
MOUNTS = """RUN --mount=type=cache,target=/cache --mount=type=tmpfs,target=/t --mount=type=secret,id=word \\
    echo kept >/cache/f && cat /cache/f /run/secrets/word >mounts && grep -c ' /t tmpfs' /proc/mounts >>mounts
"""
#: For newer ones than that of dockerd 20.10.
NETWORK = "RUN --network=none ls /sys/class/net >devices\n"


#: Program to its package, its version, and the builders that need it.
PROGRAMS = {
    "buildctl": ("github.com/moby/buildkit/cmd/buildctl", VERSION, ("buildkit", "buildkit-containerd")),
    "buildkitd": ("github.com/moby/buildkit/cmd/buildkitd", VERSION, ("buildkit", "buildkit-containerd")),
    "docker-buildx": ("github.com/docker/buildx/cmd/buildx", BUILDX, ("docker-buildx",)),
}


def build_programs(directory: Path, builders: list[str]) -> Path:
    """Builds what is missing for the builders; returns the folder of the programs."""
    programs = directory / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, (package, version, users) in PROGRAMS.items():
        if (programs / name).exists() or not set(users) & set(builders):
            continue
        print(f"builds: building {name}", flush=True)
        module = directory / f"go-{name}"
        module.mkdir(exist_ok=True)
        (module / "go.mod").write_text("module builds\n\ngo 1.23.0\n")
        go("get", f"{package}@v{version}", cwd=module)
        go("build", "-ldflags", "-s -w", "-o", str(programs / name), package, cwd=module)
    return programs


class Case:
    """One builder with one runtime, in a directory of its own. runtime: a command that notes each call and becomes the runtime."""

    def __init__(self, programs: Path, work: Path, name: str) -> None:
        self.programs, self.work, self.name = programs, work, name
        self.calls = work / "calls"
        self.runtime = work / f"noting-{name}"
        self.runtime.write_text(f'#!/bin/sh\necho "$*" >>{self.calls}\nexec {find(name)} "$@"\n')
        self.runtime.chmod(0o755)
        self.context = work / "context"
        self.context.mkdir()
        root = work / "root"
        make_busybox_root(root)
        tar_of(root, self.context / "base.tar")
        (self.context / "sent").write_text("sent\n")
        (self.context / "Containerfile").write_text(CONTAINERFILE)
        self.image = work / "image.tar"


@contextmanager
def podman(case: Case) -> Iterator[Any]:
    """podman build, isolation oci."""
    engine = Podman(case.work)

    def build() -> None:
        argv = engine.argv("runc", "build", "--isolation", "oci", "--no-cache", "--network", "none")
        argv[argv.index("--runtime") + 1] = str(case.runtime)
        command([*argv, "--tag", "localhost/made", str(case.context)], environment=engine.environment).ok()

    def export() -> None:
        engine.call("runc", "create", "--name", "made", "--network", "none", "localhost/made", "true").ok()
        engine.call("runc", "export", "--output", str(case.image), "made").ok()

    try:
        yield build, export
    finally:
        engine.close()


@contextmanager
def docker(case: Case) -> Iterator[Any]:
    """docker build without BuildKit: dockerd's default runtime."""
    settings = {
        "default-runtime": "noting",
        "runtimes": {"noting": {"path": str(case.runtime)}},
    }
    engine = Docker(case.work, settings)
    engine.environment["DOCKER_BUILDKIT"] = "0"
    file = str(case.context / "Containerfile")

    def build() -> None:
        engine.call("runc", "build", "--no-cache", "--network", "none", "--file", file, "--tag", "made", str(case.context)).ok()  # fmt: skip

    def export() -> None:
        engine.call("runc", "create", "--name", "made", "--network", "none", "made", "true").ok()
        engine.call("runc", "export", "--output", str(case.image), "made").ok()

    try:
        yield build, export
    finally:
        engine.close()


@contextmanager
def docker_buildx(case: Case) -> Iterator[Any]:
    """BuildKit inside dockerd, by docker buildx: the program docker-runc or runc (dockerd 20.10) of dockerd's PATH."""
    folder = case.work / "path"
    folder.mkdir()
    for name in ("docker-runc", "runc"):
        (folder / name).symlink_to(case.runtime)
    plugins = case.work / "client" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(case.programs / "docker-buildx")
    (case.work / "word").write_text("secret\n")
    with (case.context / "Containerfile").open("a") as file:
        file.write(MOUNTS)
    engine = Docker(case.work, before=f"export PATH={folder}:$PATH")
    options = (
        f"--no-cache --network none --secret id=word,src={case.work}/word --output type=tar,dest={case.image}"
    )

    def build() -> None:
        file = str(case.context / "Containerfile")
        engine.call("runc", "buildx", "build", *shlex.split(options), "--file", file, str(case.context)).ok()

    try:
        yield build, lambda: None
    finally:
        engine.close()


@contextmanager
def buildkitd(case: Case, settings: str, *before: str) -> Iterator[Any]:
    """A private buildkitd without a network. before: a command that the daemon's is appended to."""
    address = f"unix://{case.work}/sock"
    (case.work / "buildkitd.toml").write_text(f'root = "{case.work}/buildkit"\n{settings}')
    (case.work / "word").write_text("secret\n")
    with (case.context / "Containerfile").open("a") as file:
        file.write(MOUNTS + NETWORK)
    words = [str(case.programs / "buildkitd"), "--addr", address, "--config", f"{case.work}/buildkitd.toml"]
    daemon = Daemon([*before, *words], case.work / "buildkitd.log", ENVIRONMENT)
    client = [str(case.programs / "buildctl"), "--addr", address]

    def build() -> None:
        words = shlex.split(
            f"build --no-cache --frontend dockerfile.v0 --opt filename=Containerfile --local context={case.context}"
            f" --local dockerfile={case.context} --secret id=word,src={case.work}/word --output type=tar,dest={case.image}"
        )
        command([*client, *words]).ok()

    try:
        daemon.until(lambda: command([*client, "debug", "workers"]).status == 0, "buildkitd")
        yield build, lambda: None
    finally:
        daemon.stop()


@contextmanager
def buildkit(case: Case) -> Iterator[Any]:
    """buildkitd's own worker, `binary` in [worker.oci]."""
    settings = (
        f'[worker.oci]\nenabled = true\nbinary = "{case.runtime}"\nnetworkMode = "host"\nsnapshotter = "overlayfs"\n'
        "[worker.containerd]\nenabled = false\n"
    )
    with buildkitd(case, settings, "unshare", "--mount") as steps:
        yield steps


@contextmanager
def buildkit_containerd(case: Case) -> Iterator[Any]:
    """buildkitd's worker that runs steps by containerd, which must see its mounts: the runtime in [worker.containerd.runtime]."""
    engine = Containerd(case.work)
    settings = (
        f'[worker.oci]\nenabled = false\n[worker.containerd]\nenabled = true\naddress = "{engine.address}"\n'
        f'networkMode = "host"\nsnapshotter = "overlayfs"\n[worker.containerd.runtime]\nname = "io.containerd.runc.v2"\n'
        f'options = {{ BinaryName = "{case.runtime}" }}\n'
    )
    try:
        with buildkitd(case, settings) as steps:
            yield steps
    finally:
        engine.close()


BUILDERS: dict[str, Any] = {
    "podman": podman,
    "docker": docker,
    "docker-buildx": docker_buildx,
    "buildkit": buildkit,
    "buildkit-containerd": buildkit_containerd,
}


def contents(image: Path) -> list[str]:
    """The files of /result as lines."""
    lines = []
    with tarfile.open(image) as tar:
        for entry in sorted(tar.getmembers(), key=lambda entry: entry.name):
            name = entry.name.removeprefix("./")
            if not f"{name}/".startswith("result/"):
                continue
            file = tar.extractfile(entry) if entry.isreg() else None
            text = file.read().decode(errors="replace") if file else entry.linkname
            lines.append(f"{name} {entry.type!r} {entry.mode:o} {entry.uid}:{entry.gid} {text!r}")
    return lines


def run(programs: Path, builder: str, runtime: str, rounds: int) -> tuple[list[str], float, int]:
    """Builds with one runtime. The image's files, the shortest time in seconds, and how many containers were run."""
    work = short_directory(f"builds-{builder.replace('-', '')[:12]}-{runtime}")
    try:
        case = Case(programs, work, runtime)
        with BUILDERS[builder](case) as (build, export):
            times = []
            for _ in range(rounds):
                began = time.monotonic()
                build()
                times.append(time.monotonic() - began)
            export()
        calls = case.calls.read_text().splitlines() if case.calls.exists() else []
        ran = sum(1 for line in calls if {"run", "create"} & set(line.split()))
        return contents(case.image), min(times), ran
    finally:
        remove(work)


def compare(programs: Path, builder: str, rounds: int) -> bool:
    """Prints one line; what differs behind it."""
    found = {name: run(programs, builder, name, rounds) for name in runtimes()}
    files = [lines for lines, _, _ in found.values()]
    good = all(lines and lines == files[0] for lines in files) and all(ran for _, _, ran in found.values())
    words = ", ".join(
        f"{name} {seconds:.2f} s, {ran} containers" for name, (_, seconds, ran) in found.items()
    )
    print(f"{builder}: {'equal' if good else 'DIFFERENT'} ({len(files[0])} files; {words})", flush=True)
    if not good:
        for name, (lines, _, _) in found.items():
            print(f"  {name}:", *lines, sep="\n    ")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, default=WORK)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("builder", nargs="*", help=", ".join(BUILDERS))
    options = parser.parse_args()
    chosen = options.builder or list(BUILDERS)
    if unknown := set(chosen) - set(BUILDERS):
        parser.error(f"no such builder: {', '.join(sorted(unknown))}")
    programs = build_programs(options.directory, chosen)
    good = [compare(programs, builder, options.rounds) for builder in chosen]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
