"""krun in a chroot: the tree outside of the chroot is reachable neither by the container's programs nor by those of `exec`.

pivot_root(2) in a chroot exchanges the chroot's own mount only; the tree outside stays the root of the mount namespace. setns(2) leads
there, and so does a further chroot(2) with ".." behind it. runc's containers are open in both ways, which shows that the ways exist.
"""

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.bundle import Bundle
from helpers.engines import remove, short_directory
from helpers.runtime import ROOT, SLOW, Runtime

CANARY = "nobody in the chroot reads this"

#: Leaves a chroot by a second one: the working directory stays outside of it, and ".." of it has no bound (chroot(2)).
LEAVE = f"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {{
    char text[{len(CANARY)}];
    mkdir("/tmp/deeper", 0755);
    if (argc != 2 || chroot("/tmp/deeper")) {{ perror("chroot"); return 1; }}
    for (int i = 0; i < 100; i++) if (chdir("..")) {{ perror("chdir"); return 1; }}
    if (chroot(".")) {{ perror("chroot"); return 1; }}
    int fd = open(argv[1], O_RDONLY);
    if (fd < 0) {{ puts("inside"); return 0; }}
    if (read(fd, text, sizeof(text)) == sizeof(text)) printf("%.*s\\n", (int)sizeof(text), text);
    return 0;
}}
"""


class Jail:
    """A directory to chroot into: the host's programs and this repository, and `work`, where the runtime's state and bundles are.

    Everything is bound in by `run`, in a mount namespace that ends with it. The canary lies beside it.
    """

    def __init__(self, name: str) -> None:
        self.top = short_directory("jail")
        self.work = self.top / "work"
        self.tree = self.top / "tree"
        self.canary = self.top / "canary"
        self.canary.write_text(CANARY)
        self.work.mkdir()
        self.runtime = Runtime(name, self.work)

    def run(self, kind: str, script: str, **variables: object) -> str:
        """Runs a shell script in the chroot, which is a mount point (kind "mount") or a directory of a shared mount ("directory").

        Returns its output.
        """
        bind = []
        if kind == "mount":
            bind.append(f"mount --bind {self.tree} {self.tree}")
        for path in (Path("/usr"), Path("/etc"), Path("/dev"), Path("/proc"), Path("/sys"), ROOT, self.work):
            (self.tree / path.relative_to("/")).mkdir(parents=True, exist_ok=True)
            bind.append(f"mount --rbind {path} {self.tree}{path}")
        for name in ("bin", "sbin", "lib", "lib64"):
            link = self.tree / name
            if Path("/", name).is_symlink():
                link.symlink_to(Path("/", name).readlink())
            else:
                link.mkdir()
                bind.append(f"mount --rbind /{name} {link}")
        values = {"rt": f"{self.runtime.path} --root {self.runtime.root}", "canary": self.canary, **variables}
        # $outside: the mounts of a process that stays outside of the chroot, in the same mount namespace.
        outer = [*bind, "outside=/proc/$$/mountinfo; export outside"]
        if kind != "mount":
            outer.append("mount --make-rshared /")
        outer += [f'chroot {self.tree} /bin/sh -c "$1"']
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", "\n".join(outer), "sh", script],
            env=self.runtime.environment | {key: str(value) for key, value in values.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60 * SLOW,
            check=True,
        )
        return done.stdout


#: Runtime, the root of the chroot, rootfsPropagation, options. runc makes no container in a directory (EINVAL: / is no mount point,
#: and pivot_root(2) refuses a shared mount).
CASES = [
    ("runc", "mount", "rprivate", ""),
    ("krun", "mount", "rprivate", ""),
    ("krun", "directory", "rprivate", ""),
    ("krun", "mount", "rprivate", "--no-pivot"),
    ("krun", "directory", "rshared", ""),
]


class Case(NamedTuple):
    """A jail with a bundle for it."""

    jail: Jail
    kind: str
    options: str
    bundle: Bundle

    def run(self, script: str) -> str:
        """Runs a shell script in the chroot that has the runtime as $rt, options, id, bundle and canary; returns its output."""
        container = self.jail.runtime.new(self.bundle)
        path = self.bundle.write()
        return self.jail.run(self.kind, script, options=self.options, id=container.id, bundle=path)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(filter(None, case)))
def case(request, as_root):
    name, kind, propagation, options = request.param
    jail = Jail(name)
    try:
        bundle = Bundle(jail.work / "bundle")
        bundle.linux["rootfsPropagation"] = propagation
        yield Case(jail, kind, options, bundle)
    finally:
        jail.runtime.clean()
        remove(jail.top)


def test_exec_is_in_the_containers_tree(case):
    case.bundle.args("sleep", "1000")
    out = case.run(
        """$rt run --detach $options --bundle $bundle $id </dev/null >/dev/null 2>&1
        $rt exec $id /bin/sh -c "cat $canary; ls -d /proc/[0-9]* | wc -l; readlink /proc/1/root" 2>&1
        $rt delete --force $id"""
    )
    if case.jail.runtime.name == "runc":
        assert out.startswith(CANARY), "the way out does not exist: nothing is tested here"
        return
    absent, processes, root = out.splitlines()
    assert "No such file" in absent and root == "/", out
    # The container's own /proc: its init, the shell, ls and wc.
    assert 2 <= int(processes) <= 4, out


def test_a_chroot_in_the_container_leads_nowhere(case):
    source = case.jail.top / "leave.c"
    source.write_text(LEAVE)
    case.bundle.args("/leave", str(case.jail.canary))
    for name in ("bounding", "effective", "permitted"):
        case.bundle.process["capabilities"][name] = ["CAP_SYS_CHROOT"]
    subprocess.run(["gcc", "-static", "-O1", "-o", case.bundle.rootfs / "leave", source], check=True)
    out = case.run("$rt run $options --bundle $bundle $id")
    assert out.strip() == (CANARY if case.jail.runtime.name == "runc" else "inside"), out


def test_the_tree_outside_is_as_before(case):
    """What the container mounts and unmounts reaches no mount of the caller's, although those outside of the chroot are shared."""
    case.bundle.shell("mount | wc -l")
    out = case.run(
        """before=$(md5sum <$outside)
        $rt run $options --bundle $bundle $id
        test "$before" = "$(md5sum <$outside)" && echo same""",
    )
    assert out.splitlines()[1:] == ["same"], out
