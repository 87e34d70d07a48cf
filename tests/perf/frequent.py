"""Writes krun/native/launcher/frequent.txt: the functions that the hot verbs call, krun's process and its child together, in the order
of their first calls (krun/native/build_launcher.py, `frequent`). Run by hand, as root, after larger changes of these verbs; a
function that is not listed costs a page more.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from krun.native import build_launcher  # noqa: E402

ROOM = 1 << 20


def trace(names: Path, arguments: list[str]) -> None:
    """Runs one verb in this process and appends the functions that it and its child call."""
    # Imported first: a module's own code runs while the launcher is made.
    for name in build_launcher.bundled():
        if name not in build_launcher.COMPILED:
            __import__(name)
    from krun.__main__ import main

    # The child ends by exec or os._exit, behind pivot_root(2): what it called goes into memory that both share.
    shared = mmap.mmap(-1, ROOM)
    seen = set()

    def called(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen and code.co_filename.startswith(f"{ROOT}/krun/"):
            seen.add(code)
            line = f"{os.path.relpath(code.co_filename, ROOT)}:{code.co_qualname}\n".encode()
            at = int.from_bytes(shared[:8], "little") or 8
            shared[at : at + len(line)] = line
            shared[:8] = (at + len(line)).to_bytes(8, "little")

    def write() -> None:
        with names.open("ab") as file:
            file.write(shared[8 : int.from_bytes(shared[:8], "little")])

    here, end = os.getpid(), os._exit

    def leave(code: int) -> None:
        if os.getpid() == here:
            write()
        end(code)

    os._exit = leave  # type: ignore[assignment]
    sys.argv = ["krun", *arguments]
    sys.setprofile(called)
    main()


def main() -> None:
    from helpers.bundle import Bundle, make_busybox_root

    with tempfile.TemporaryDirectory(prefix="krun-frequent-") as folder:
        work = Path(folder)
        make_busybox_root(work / "rootfs")
        for name, args in (("true", ["/bin/true"]), ("sleep", ["/bin/sleep", "1000"])):
            Bundle(work / name, root=work / "rootfs").args(*args).write()
        id, names = f"frequent{os.getpid()}", work / "names"
        for verb in (
            ("run", "--bundle", str(work / "true"), id),
            ("create", "--bundle", str(work / "sleep"), "--pid-file", str(work / "pid"), id),
            ("start", id),
            ("state", id),
            ("exec", id, "/bin/true"),
            ("kill", id, "KILL"),
            ("delete", "--force", id),
        ):
            command = [sys.executable, __file__, str(names), "--root", str(work / "state"), *verb]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        lines = dict.fromkeys(names.read_text().splitlines())
    build_launcher.FREQUENT.write_text("".join(f"{line}\n" for line in lines if "<module>" not in line))


if __name__ == "__main__":
    if sys.argv[1:]:
        trace(Path(sys.argv[1]), sys.argv[2:])
    else:
        main()
