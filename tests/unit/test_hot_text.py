"""krun/native/monitor/hot.ld: the functions that serve frequent calls lie together in the monitor."""

import re
import subprocess

from krun.native import build_native

PAGE = 4096
# The functions that a forwarded call without pointers (getppid) runs in the monitor. kr_perform is a switch over all
# handlers, so only its beginning counts.
PLAIN = (
    *("kr_call_intr", "kr_run", "kr_vdso_tick", "kr_share_wanted", "to_user_mode", "system_call", "decode"),
    *("kr_syscall", "serve", "kr_admit", "kr_check_args", "kr_sys_row", "kr_fd_hidden", "memcpy", "forward"),
)


def wanted() -> set[tuple[str, str]]:
    """Returns (object, function) for each name in hot.ld that has no wildcard."""
    text = build_native.MONITOR_LAYOUT.read_text()
    found = set()
    for member, names in re.findall(r"\*(\w+\.c\.o)\(([^)]*)\)", text):
        found |= {(member, n.removeprefix(".text.")) for n in names.split() if "*" not in n}
    return found


def functions() -> dict[str, tuple[int, int]]:
    """Returns the address and the size of each function of the output section .text.frequent."""
    lines = subprocess.run(
        ["objdump", "-t", "-j", ".text.frequent", str(build_native.MONITOR)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    rows = (re.match(r"(\w+) .* F \.text\.frequent\s+(\w+) (?:\.hidden )?(\S+)", line) for line in lines)
    return {row[3]: (int(row[1], 16), int(row[2], 16)) for row in rows if row}


def test_each_name_is_a_function_of_its_file() -> None:
    """A renamed function would fall out of the run of pages without a word. A static one may be inlined."""
    sources = {f"{p.parent.name}_{p.name}.o": p.read_text() for p in build_native.monitor_sources()}
    placed = functions()
    lost = set()
    for member, name in wanted():
        defined = re.search(rf"^(static )?\w[\w *]*\b{name}\(", sources[member], re.M)
        if not defined or not (defined[1] or name in placed):
            lost.add((member, name))
    assert wanted()
    assert lost == set()


def test_a_plain_call_needs_three_pages_of_text() -> None:
    """The functions of the way of getppid."""
    placed = functions()
    pages = {at // PAGE for name in PLAIN for at in (placed[name][0], placed[name][0] + placed[name][1] - 1)}
    assert len(pages) <= 3


def test_all_other_functions_are_in_text() -> None:
    """The linker has left no section of an object over."""
    sections = subprocess.run(
        ["objdump", "-h", str(build_native.MONITOR)], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"\s(\.text\S*)", sections)) == {".text.frequent", ".text"}
