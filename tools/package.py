"""./dev package: krun as a wheel and as a Debian package, in build/package.

The wheel is for pip. The Debian package is one for Debian 12 and 13 and for Ubuntu 24.04: the code in /usr/lib/krun (compiled parts need no
particular Python: limited API), dependencies from Debian, pyseccomp, which Debian has not got, beside the code. What
depends on the machine's Python is made at installation: the launcher (krun/native/build_launcher.py), the fast one where gcc
and the static libpython are installed (Recommends), else the script. dpkg-deb alone builds it (deb-control(5), deb-postinst(5),
deb-triggers(5)).
"""

from __future__ import annotations

import configparser
import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "package"
#: build_native.py's, where root builds: here it belongs to root whoever builds.
MONITOR_MODE = 0o111
#: Where the package's code lies.
HOME = "usr/lib/krun"

CONTROL = """Package: krun
Version: {version}
Architecture: amd64
Maintainer: the krun developers <krun@localhost>
Section: admin
Priority: optional
Depends: python3 (>= 3.11), python3-click, python3-pyroute2, python3-prctl, python3-cffi-backend, python3-yaml, libc6 (>= 2.36),
 libseccomp2 (>= 2.5)
Recommends: gcc, libc6-dev, libpython3-dev, nftables, python3-h2
Enhances: podman, docker.io, containerd
Installed-Size: {size}
Description: OCI runtime whose containers run in KVM virtual machines without a guest kernel
 A drop-in for runc: namespaces, cgroups, mounts, hooks and users as runc has them. The program of the image runs,
 unmodified, in ring 3 of a virtual machine; a small monitor serves its system calls in the container's namespaces.
"""

POSTINST = """#!/bin/sh
# configure: at installation. triggered: Debian's Python is another one, and the launcher holds a part of it.
set -e
case $1 in
configure | triggered)
    py3compile -p krun /usr/lib/krun
    cd /
    PYTHONPATH=/usr/lib/krun /usr/bin/python3 -m krun.native.build_launcher /usr/lib/krun/bin
    ;;
esac
"""

PRERM = """#!/bin/sh
# What postinst made goes before the files that it was made of.
set -e
rm -rf /usr/lib/krun/bin
py3clean -p krun
"""

#: Files and packages whose change means another interpreter.
TRIGGERS = "interest-noawait /usr/lib/python3.11\ninterest-noawait /usr/lib/python3.12\ninterest-noawait /usr/lib/python3.13\n"

COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/krun",
    "zsh": "usr/share/zsh/vendor-completions/_krun",
    "fish": "usr/share/fish/vendor_completions.d/krun.fish",
}


def run(*words: str | os.PathLike[str], **more: object) -> str:
    """Run a program; its output. Ends with its words where it fails."""
    done = subprocess.run([os.fspath(w) for w in words], stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"package: {' '.join(map(str, words))}: status {done.returncode}")
    return str(done.stdout)


def version() -> str:
    """The project's, from setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser["metadata"]["version"]


def wheel() -> Path:
    """Build the wheel with the environment we run in."""
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
        "--wheel-dir", OUT, ROOT,
    )  # fmt: skip
    return next(OUT.glob("krun_oci-*.whl"))


def put(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    """Write a file, its folders too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)


def fill(tree: Path, built: Path) -> None:
    """Lay out the package's files below `tree`."""
    home = tree / HOME
    home.mkdir(parents=True)
    with zipfile.ZipFile(built) as archive:
        archive.extractall(home, [name for name in archive.namelist() if name.startswith("krun/")])
    (home / "krun" / "native" / "krun-monitor").chmod(MONITOR_MODE)
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
        "--target", home, "pyseccomp",
    )  # fmt: skip
    for folder in home.glob("*.dist-info"):
        shutil.rmtree(folder)
    command = [sys.executable, "-c", "from krun.__main__ import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pages = tree / "usr/share/man/man8"
    run(*command, "man", pages, env=environment, cwd="/")
    for page in list(pages.iterdir()):
        put(pages / f"{page.name}.gz", gzip.compress(page.read_bytes(), 9, mtime=0))
        page.unlink()
    for shell, path in COMPLETIONS.items():
        put(tree / path, run(*command, "completion", shell, env=environment, cwd="/"))
    documents = tree / "usr/share/doc/krun"
    put(documents / "copyright", (ROOT / "LICENSE").read_bytes())
    put(documents / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), 9, mtime=0))
    unit = run(*command, "serve", "unit", "--runtime", "/usr/bin/krun", env=environment, cwd="/")
    put(tree / "usr/lib/systemd/system/krun-serve.service", unit)
    (tree / "usr/bin").mkdir()
    # The launcher is made by postinst.
    (tree / "usr/bin/krun").symlink_to("../lib/krun/bin/krun")
    for cache in home.rglob("__pycache__"):
        shutil.rmtree(cache)


def debian(built: Path) -> Path:
    """Build the Debian package."""
    tree = OUT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(mode=0o755)
    fill(tree, built)
    size = sum(path.lstat().st_size for path in tree.rglob("*")) // 1024
    put(tree / "DEBIAN/control", CONTROL.format(version=version(), size=size))
    put(tree / "DEBIAN/postinst", POSTINST, 0o755)
    put(tree / "DEBIAN/prerm", PRERM, 0o755)
    put(tree / "DEBIAN/triggers", TRIGGERS)
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir() and not path.is_symlink())]:
        folder.chmod(0o755)
    package = OUT / f"krun_{version()}_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "--build", tree, package)
    shutil.rmtree(tree)
    return package


def main() -> int:
    """Build both; say where they are."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    built = wheel()
    print(f"package: {built}\npackage: {debian(built)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
