"""What --version prints: the version, and the commit that krun was built from. Imports little: podman and dockerd ask at each start."""

import os
import sys

import krun

PACKAGE = os.path.dirname(krun.__file__)
#: File of the package with the commit; the build backend writes it (native/_backend.py). A source tree asks its repository.
COMMIT = f"{PACKAGE}/commit"


def text() -> str:
    """Return what --version prints: dockerd reads "NAME version X" and "commit:", people the rest."""
    lines = [
        f"krun version {krun.__version__}",
        f"commit: {commit(os.path.dirname(PACKAGE)) or _read(COMMIT) or f'v{krun.__version__}'}",
        f"spec: {krun.SPEC_VERSION}",
        f"python: {sys.version.split()[0]}",
    ]
    return "\n".join(lines) + "\n"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def commit(tree: str) -> str:
    """Return the commit of the repository whose working tree is `tree`; "" if there is none.

    Read from git's files (gitrepository-layout(5)): git itself takes 3 ms, and refuses repositories of other users.
    """
    folder = os.path.join(tree, ".git")
    if os.path.isfile(folder):  # a worktree of git-worktree(1)
        folder = os.path.join(tree, _read(folder).partition("gitdir: ")[2])
    head = _read(f"{folder}/HEAD")
    if not head.startswith("ref: "):
        return head
    name = head[5:]
    base = os.path.join(folder, _read(f"{folder}/commondir") or ".")
    packed = (line.split() for line in _read(f"{base}/packed-refs").splitlines())
    return _read(f"{base}/{name}") or next((words[0] for words in packed if words[1:] == [name]), "")
