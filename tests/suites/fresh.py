"""A fresh machine: new Debian and Ubuntu roots (debootstrap, minbase), in which the README's commands are given as a person would.

    fresh.py [--keep] [--packages] [RELEASE...]      (bookworm, trixie; noble, of Ubuntu)

In each: ./dev demo, ./dev install, a container by /opt/krun/bin/krun once the tree is gone, ./dev install again over the old one, and the set-up
of ./dev test with tests of the command line and of containers. --packages: instead what ./dev package makes, which must be there: the Debian
package installed, used and purged, the wheel in a virtual environment. /dev, /sys and the kernel are this machine's, the rest is the root's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from helpers.runtime import ROOT

WORK = ROOT / "build" / "fresh"
RELEASES = ("bookworm", "trixie")

#: What debootstrap needs for a release that is not Debian's: components, mirror, script. Debian 12 has no package of Ubuntu's keys,
#: so TLS stands for the signature; apt in the root has the keys.
OTHERS = {
    "noble": ("main,universe", "https://archive.ubuntu.com/ubuntu", "/usr/share/debootstrap/scripts/gutsy"),
}

#: Before a root's first command: mounts in a mount namespace of its own, which take themselves away.
ENTER = """set -e
root=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
exec chroot "$root" "$@"
"""

STEPS = (
    ("demo", "cd /src && ./dev demo", ("hello from in-a-vm", "anon_inode:kvm-vm")),
    ("install", "cd /src && ./dev install", ("hello from in-a-vm", "installed: /opt/krun/bin/krun")),
    (
        "without the tree",
        "mv /src /away && mkdir /tmp/b && cd /tmp/b && /opt/krun/bin/krun spec && mkdir -p rootfs/bin rootfs/proc rootfs/dev rootfs/sys &&"
        ' cp /bin/busybox rootfs/bin/ && sed -i \'s/"terminal": *true/"terminal": false/; s#"sh"#"/bin/busybox", "uname", "-n"#\' config.json &&'
        " /opt/krun/bin/krun run box && mv /away /src",
        ("krun",),
    ),
    ("install again", "cd /src && ./dev install", ("installed: /opt/krun/bin/krun",)),
    (
        "the launcher's tests",
        "cd /src && ./dev test -q tests/unit/test_launcher.py",
        (" passed",),
    ),
)


#: A bundle in /tmp/b whose program is `uname -n`, run by $1.
CONTAINER = (
    "rm -rf /tmp/b && mkdir /tmp/b && cd /tmp/b && {0} spec && mkdir -p rootfs/bin rootfs/proc rootfs/dev rootfs/sys && cp /bin/busybox rootfs/bin/ &&"
    ' sed -i \'s/"terminal": *true/"terminal": false/; s#"sh"#"/bin/busybox", "uname", "-n"#\' config.json && {0} run box'
)
APT = "DEBIAN_FRONTEND=noninteractive apt-get -q -y"
PACKAGE_STEPS = (
    (
        "the Debian package",
        f"{APT} update && {APT} install busybox-static man-db bash-completion /packages/krun_*.deb && krun doctor",
        ("an interpreter that has started already",),
    ),
    ("a container of it", CONTAINER.format("krun"), ("krun",)),
    (
        "a wrong call",
        "krun state 2>&1; test $? = 1",
        ("requires exactly 1 argument",),
    ),
    (
        "its manual and completion",
        "man -w krun && man -w krun-create && bash -c '. /usr/share/bash-completion/completions/krun && complete -p krun'",
        ("krun.8", "krun-create.8", "complete"),
    ),
    (
        "which launcher",
        "case $(head -c 4 /usr/lib/krun/bin/krun | tail -c 3) in ELF) echo started launcher ;; *) echo script ;; esac; krun --version",
        ("krun",),
    ),
    (
        "purged",
        f"{APT} purge krun && ! command -v krun && ! find /usr/lib/krun /usr/share/man/man8/krun* /usr/bin/krun 2>/dev/null | grep . && echo nothing is left",
        ("nothing is left",),
    ),
    (
        "the wheel",
        f"{APT} install --no-install-recommends gcc libc6-dev python3-dev python3-venv libcap-dev libseccomp2 && python3 -m venv /tmp/v &&"
        " /tmp/v/bin/pip install -q /packages/krun_oci-*.whl && " + CONTAINER.format("/tmp/v/bin/krun"),
        ("krun",),
    ),
)


def make(release: str, root: Path) -> None:
    """A root with nothing but what the distribution calls minimal, and the project's files in /src."""
    options, more = ["--variant=minbase"], []
    if release in OTHERS:
        components, *more = OTHERS[release]
        options += [f"--components={components}", "--no-check-gpg"]
    subprocess.run(
        ["debootstrap", *options, release, str(root), *more], check=True, stdout=subprocess.DEVNULL
    )
    if more:
        sources = root / "etc" / "apt" / "sources.list"
        sources.write_text(sources.read_text().replace("https:", "http:"))
    (root / "src").mkdir()
    files = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    packed = subprocess.run(
        ["tar", "--null", "--files-from=-", "-cf", "-"],
        cwd=ROOT,
        input=files,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    subprocess.run(["tar", "-C", str(root / "src"), "-xf", "-"], input=packed, check=True)
    subprocess.run(["git", "init", "-q", str(root / "src")], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")


def environment(root: Path) -> dict[str, str]:
    """A person's, and how this machine reaches the packages: pip's settings with the files that they name."""
    found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    found |= {
        key: value
        for key, value in os.environ.items()
        if key.startswith("PIP_") or key.lower().endswith("_proxy")
    }
    for key in ("PIP_CERT", "SSL_CERT_FILE"):
        if key in os.environ and os.path.exists(os.environ[key]):
            shutil.copy(os.environ[key], root / "certificates.pem")
            found[key] = "/certificates.pem"
    links = found.get("PIP_FIND_LINKS", "")
    if links.startswith("/") and os.path.isdir(links):
        shutil.copytree(links, root / links.lstrip("/"), dirs_exist_ok=True)
    return found


def prove(release: str, steps: tuple[tuple[str, str, tuple[str, ...]], ...]) -> bool:
    """Whether every step does what it should; says so as it goes."""
    root = WORK / release
    begin = time.monotonic()
    shutil.rmtree(root, ignore_errors=True)
    make(release, root)
    if steps is PACKAGE_STEPS:
        shutil.copytree(ROOT / "build" / "package", root / "packages")
    settings = environment(root)
    log = WORK / f"{release}.log"
    log.write_text("")
    print(f"{release}: made in {time.monotonic() - begin:.0f} s", flush=True)
    for name, script, words in steps:
        begin = time.monotonic()
        argv = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--propagation",
            "slave",
            "sh",
            "-c",
            ENTER,
            "sh",
            str(root),
        ]
        done = subprocess.run(
            [*argv, "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=settings,
            check=False,
        )
        with log.open("a") as file:
            file.write(f"=== {name}\n{done.stdout}\n")
        missing = [word for word in words if word not in done.stdout]
        good = done.returncode == 0 and not missing
        print(
            f"{release}: {name}: {'ok' if good else 'FAIL'} in {time.monotonic() - begin:.0f} s", flush=True
        )
        if not good:
            print(f"    status {done.returncode}, lacking {missing}, see {log}\n{done.stdout[-3000:]}")
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the roots under build/fresh")
    parser.add_argument("--packages", action="store_true", help="what ./dev package has made, not the tree")
    parser.add_argument("release", nargs="*", default=[])
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    steps = PACKAGE_STEPS if options.packages else STEPS
    good = [prove(release, steps) for release in options.release or RELEASES]
    if not options.keep:
        for release in options.release or RELEASES:
            shutil.rmtree(WORK / release)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
