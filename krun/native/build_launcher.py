"""Builds the fast launcher: the executable `krun` (launcher/krun.c), a static libpython that has started and loaded the
hot modules already, and the plain script (`krun.py`) that it falls back to.

`python -m krun.native.build_launcher FOLDER` (./dev setup: build/bin). The executable is linked, run once to write its
memory, and given this memory as its data (krun.c says how and why that is sound). Without a static libpython, or where a
step fails, the script alone is made, under the name `krun`: nothing but time is lost. In memory is every module that
a hot verb imports at the top of a file, or that one of those imports inside a function. A source that is no longer what it
was then sends every call to the script.
"""

import _imp
import ast
import functools
import hashlib
import importlib.util
import marshal
import os
import shlex
import struct
import subprocess
import sys
import sysconfig
import tempfile
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from krun.cli.verbs import VERBS
from krun.native import build_native

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LAUNCHER = HERE / "launcher"
SOURCES = tuple(
    LAUNCHER / name for name in ("krun.c", "blocks.c", "arena.c", "arena.h", "blocks.h", "start.py")
)
#: The functions that the hot verbs run, in the order of their first calls: "path:qualified name" (tests/perf/frequent.py).
FREQUENT = LAUNCHER / "frequent.txt"

#: Versions of Python whose memory krun.c knows how to keep: it touches the interpreter's inside. Others get the script.
#: Debian 12, Ubuntu 24.04, Debian 13 (`./dev test-suites fresh` makes roots of them).
KNOWN = ((3, 11), (3, 12), (3, 13))
STAMP = ".krun.stamp"  # what the executable was made of
HEAD = 24  # of what krun.c's make() writes
#: ob_size of an int of one digit, from 3.12 on lv_tag (8 times the digits, 2 = negative).
SMALL = (1, (1 << 64) - 1) if sys.version_info < (3, 12) else (8, 8 | 2)
#: Debian's Python packages (Debian Python policy).
DISTRIBUTION = "/usr/lib/python3/dist-packages"
PT_LOAD, PT_DYNAMIC, DT_RELA, DT_RELASZ = 1, 2, 7, 8

#: The hot verbs that make no process.
SHORT = ("state", "start", "kill", "delete")
#: Compiled modules on hot paths; the module of krun needs cffi's run time first.
COMPILED = {"krun.native._krun": ("_cffi_backend",), "_cffi_backend": (), "_json": ()}
#: Imported inside functions of hot modules, and too rare for the launcher (what is heavy stays out by itself): full interpreter.
OUTSIDE = (
    "krun.cli.app",
    "krun.native.build_native",
    "krun.oci.network",
    "krun.oci.cgroup.systemd",
    "krun.oci.cgroup.properties",
)

SCRIPT = """#!{python} -IS
import sys

sys.path += {paths!r}
sys.argv[0] = {command!r}
from krun.__main__ import main

main()
"""


def source_of(name: str) -> Path | None:
    """Returns the file of one of krun's modules, None if there is none of that name."""
    stem = ROOT.joinpath(*name.split("."))
    for path in (stem / "__init__.py", stem.with_suffix(".py")):
        if path.exists():
            return path
    return None


def imports(name: str, lazy: bool = False) -> list[str]:
    """Returns the modules of krun (and compiled ones) that a module imports, in order: those at the top of the file,
    or those inside functions.
    """
    if name in COMPILED:
        return list(COMPILED[name])
    path = source_of(name)
    assert path is not None, name
    tree = ast.parse(path.read_bytes())
    top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    nodes: list[Any] = (
        [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) and n not in top]
        if lazy
        else list(top)
    )
    found: list[str] = []
    for node in nodes:
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{word}" for word in names)]
        found += [word for word in names if word in COMPILED or (word.startswith("krun") and source_of(word))]
    return found


def closure(name: str, order: list[str]) -> None:
    """Appends a module to `order`, after its parents and what it imports."""
    if name in order:
        return
    parent = name.rpartition(".")[0]
    if parent:
        closure(parent, order)
    for other in imports(name):
        if other != name and other not in order:
            closure(other, order)
    if name not in order:
        order.append(name)


def orders() -> dict[str, list[str]]:
    """Returns, for each hot verb, the modules that it imports, in the order in which they are executed."""
    found: dict[str, list[str]] = {}
    for row in VERBS:
        if row.hot:
            order: list[str] = []
            found[row.name] = order
            closure("krun.__main__", order)
            closure(row.call.partition(":")[0], order)
    return found


@functools.cache
def _is_light(name: str) -> bool:
    """Tells whether a module, and what it imports at its top, needs nothing but krun and what is built in or frozen."""
    path = source_of(name)
    assert path is not None, name
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for word in names:
            known = word.startswith("krun") or word in COMPILED or word in sys.builtin_module_names
            if not known and not _imp.is_frozen(word):
                return False
    return all(_is_light(other) for other in imports(name) if other != name and other not in COMPILED)


def bundled() -> list[str]:
    """Returns all modules that the launcher holds: those of orders(), and the light ones that they import later."""
    names = [name for order in orders().values() for name in order]
    for name in names:  # grows
        if name in COMPILED:
            continue
        for other in imports(name, lazy=True):
            if other in OUTSIDE or (other not in COMPILED and not _is_light(other)):
                continue
            closure(other, names)
    return sorted(set(names))


def module_file(name: str) -> Path:
    """Returns the file of a module of bundled()."""
    if name not in COMPILED:
        path = source_of(name)
        assert path is not None
        return path
    if name == "krun.native._krun":
        return HERE / "_krun.abi3.so"
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin:
        raise SystemExit(f"krun: build launcher: no module {name}")
    return Path(spec.origin).resolve()


def stamps() -> bytes:
    """Returns what the executable compares at every start: time in ns, size, length of the padded path, path, for each
    source (struct entry of krun.c).
    """
    parts = []
    for name in bundled():
        if name not in COMPILED:
            path = module_file(name)
            found = path.stat()
            raw = os.fsencode(path) + b"\0"
            raw += bytes(-len(raw) % 8)
            parts += [struct.pack("=qqq", found.st_mtime_ns, found.st_size, len(raw)), raw]
    return b"".join(parts)


def modules() -> bytes:
    """Returns the marshalled triple (code of start.py, frequent(), BUNDLE of start.py)."""

    def code(path: Path) -> Any:
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)

    order: list[str] = []
    for name in bundled():
        closure(name, order)
    loaded = {}
    for name in order:
        if name not in COMPILED:
            path = module_file(name)
            loaded[name] = (path.name == "__init__.py", str(path), code(path))
    compiled = {name: str(module_file(name)) for name in COMPILED}
    hot = tuple(row.name for row in VERBS if row.hot)
    bundle = (loaded, compiled, hot)
    return marshal.dumps((code(LAUNCHER / "start.py"), frequent(c for _, _, c in loaded.values()), bundle))


def frequent(codes: Iterable[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the code objects, below these of modules, that FREQUENT names, in its order: those of modules that short verbs
    import, and the others.

    They are read first, so they lie side by side in the memory. A call writes to its code object (the number of references), and the
    first write to a page of the executable makes a copy of the page: 1.4 us, and once more in the child. Without the order, `create`
    copies a page for nearly every function that it calls.
    """
    found: dict[str, list[Any]] = {}
    waiting = list(codes)
    for code in waiting:  # grows
        below = [c for c in code.co_consts if isinstance(c, types.CodeType)]
        waiting += below
        for c in below:
            found.setdefault(f"{os.path.relpath(c.co_filename, ROOT)}:{c.co_qualname}", []).append(c)
    ordered = orders()
    short = {str(module_file(name)) for verb in SHORT for name in ordered[verb] if name not in COMPILED}
    codes = [c for line in FREQUENT.read_text().splitlines() for c in found.get(line, ())]
    light = tuple(c for c in codes if c.co_filename in short)
    return light, tuple(c for c in codes if c.co_filename not in short)


def _replace(path: Path, data: bytes, mode: int) -> None:
    if path.exists() and path.read_bytes() == data:
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    fresh.chmod(mode)
    fresh.replace(path)


def paths() -> list[str]:
    """Returns what the launcher adds to sys.path: the source root and the site-packages we run with (outside of a virtual
    environment those that Debian's packages are in, too).
    """
    found = [str(ROOT), sysconfig.get_path("purelib")]
    if sys.prefix == sys.base_prefix and os.path.isdir(DISTRIBUTION):
        found.append(DISTRIBUTION)
    return found


def _link(folder: Path) -> bool:
    """Makes the executable. Returns False where nobody expects it, raises _Failed where it cannot be made."""
    variables = sysconfig.get_config_vars()
    library = Path(str(variables.get("LIBPL"))) / str(variables.get("LIBRARY"))
    if not library.exists() or sys.version_info[:2] not in KNOWN:
        return False
    standard = sysconfig.get_path("stdlib")
    text = {
        "KR_SCRIPT": str(folder / "krun.py"),
        "KR_PATHS": ":".join([standard, str(variables["DESTSHARED"]), *paths()]),
        "KR_PYTHON": os.path.realpath(sys.executable),
        "KR_STDLIB": standard,
    }
    words = [str(variables.get(name) or "") for name in ("LIBS", "SYSLIBS")]
    command = [
        *_compiler(),
        *("-O2", "-Wall", "-Wextra", "-Werror", "-no-pie"),
        *("-Wl,--export-dynamic", "-Wl,--as-needed"),
        *(f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc", "free")),
        *(f'-D{name}="{value}"' for name, value in text.items()),
        *(f"-I{path}" for path in {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}),
        *(str(path) for path in SOURCES[:2]),
        str(library),
        *shlex.split(" ".join(words)),
        *(_archive(name) for name in ("expat", "z")),
        str(SOURCES[2]),
    ]
    stamp = folder / STAMP
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES) + stamps() + modules())
    seen = f"{shlex.join(command)} {digest.hexdigest()} {library.stat().st_mtime_ns}"
    if (folder / "krun").exists() and stamp.exists() and stamp.read_text() == seen:
        return True
    with tempfile.TemporaryDirectory(prefix=".krun.", dir=folder) as name:
        work = Path(name)
        _run([*command, "-o", str(work / "plain")])
        anew = _mimalloc(work / "plain")
        _run(["strip", "--strip-all", str(work / "plain")])
        (work / "stamps").write_bytes(stamps())
        (work / "modules").write_bytes(modules())
        seed = str(int.from_bytes(os.urandom(4), "little"))
        # The first time what lies together is found out. Without an environment, which would be in the memory.
        for again in ("order", "memory", "again"):
            files = (str(work / n) for n in ("stamps", "modules", again))
            _run([str(work / "plain"), *files, seed, str(work / "order")], {})
        plain = (work / "plain").read_bytes()
        memory, second = (pristine(plain, (work / n).read_bytes(), anew) for n in ("memory", "again"))
        if strays := differences(plain, memory, second):
            raise _Failed(f"what was kept depends on the process: {len(strays)} words, {strays[0]}")
        image = with_memory(plain, memory)
    _replace(folder / "krun", image, 0o755)
    stamp.write_text(seen)
    return True


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "gcc"))


def _archive(name: str) -> str:
    """Returns the linker's word for a library: the static one if there is one, because ld.so's work is 0.03 ms for each."""
    found = _run([*_compiler(), f"-print-file-name=lib{name}.a"])
    return f"-l:lib{name}.a" if "/" in found else f"-l{name}"


class _Failed(Exception):
    """A step of the launcher's making failed; the text is for people."""


def _run(command: list[str], env: dict[str, str] | None = None) -> str:
    """Returns what a command prints. Raises _Failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    except OSError as e:
        raise _Failed(f"{shlex.join(command)}: {e.strerror}") from None
    if done.returncode:
        raise _Failed(f"{shlex.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _headers(plain: bytes) -> list[tuple[int, tuple[int, ...]]]:
    """Returns the program headers of an ELF executable: (offset in the file, (type, flags, offset, vaddr, paddr, size in
    the file, in memory, alignment)).
    """
    first = struct.unpack_from("<Q", plain, 32)[0]
    size, count = struct.unpack_from("<HH", plain, 54)
    return [
        (at, struct.unpack_from("<IIQQQQQQ", plain, at)) for at in range(first, first + size * count, size)
    ]


def with_memory(plain: bytes, memory: bytes) -> bytes:
    """Returns an executable whose writable segment holds what the process had there.

    Arguments: plain, an ELF executable whose last PT_LOAD is the writable one; memory, of krun.c's make(): the addresses
    of the first byte, after the last, and of the type int, then the bytes. The part of the segment before the first byte
    (.dynamic, .got, .got.plt) belongs to the linker and stays.
    """
    begin, end = struct.unpack_from("=QQ", memory)
    loads = [found for found in _headers(plain) if found[1][0] == PT_LOAD]
    at, (kind, flags, where, address, physical, in_file, in_memory, align) = max(loads, key=lambda f: f[1][3])
    if not (flags & 2 and address <= begin <= address + in_file and begin < end <= address + in_memory):
        raise _Failed(f"memory {begin:#x}-{end:#x} is not in the segment {address:#x}, {in_memory:#x} long")
    data = plain[where : where + begin - address] + memory[HEAD:]
    fresh = (len(plain) + align - 1) // align * align + address % align
    image = bytearray(plain)
    image += bytes(fresh - len(image)) + data
    struct.pack_into(
        "<IIQQQQQQ", image, at, kind, flags, fresh, address, physical, len(data), in_memory, align
    )
    return bytes(image)


def _relocated(plain: bytes) -> set[int]:
    """Returns the addresses that ld.so writes at every start: the targets of DT_RELA."""
    headers = [header for _, header in _headers(plain)]

    def offset(address: int) -> int:
        for kind, _, where, begin, _, size, _, _ in headers:
            if kind == PT_LOAD and begin <= address < begin + size:
                return where + address - begin
        raise _Failed(f"address {address:#x} is in no segment")

    dynamic = next(header for header in headers if header[0] == PT_DYNAMIC)
    tags = dict(struct.iter_unpack("<QQ", plain[dynamic[2] : dynamic[2] + dynamic[5]]))
    if DT_RELA not in tags:
        return set()
    table = offset(tags[DT_RELA])
    return {row[0] for row in struct.iter_unpack("<QQq", plain[table : table + tags[DT_RELASZ]])}


def _mimalloc(program: Path) -> list[tuple[int, int]]:
    """Returns (address, size) of the variables of mimalloc, which is linked from 3.13 on, is not used, and begins in each
    process by a constructor of its own: all of obmalloc.c's that are not the small objects' allocator.
    """
    if sys.hexversion < 0x030D0000:
        return []
    found = []
    file = ""
    for line in _run(["readelf", "-sW", str(program)]).splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "FILE":
            file = words[7].partition(".")[0]
        elif len(words) == 8 and words[3] == "OBJECT":
            own = words[4] == "LOCAL" and file == "obmalloc" and not words[7].startswith("obmalloc_")
            if own or words[7].startswith("_mi_"):
                found.append((int(words[1], 16), int(words[2], 0)))
    return found


def pristine(plain: bytes, memory: bytes, ranges: list[tuple[int, int]]) -> bytes:
    """Returns krun.c's make()'s memory with what the executable has at first in these ranges (address, size)."""
    begin, end = struct.unpack_from("=QQ", memory)
    fresh = bytearray(memory)
    _, (_, _, offset, address, _, in_file, _, _) = max(
        (found for found in _headers(plain) if found[1][0] == PT_LOAD), key=lambda found: found[1][3]
    )
    for at, size in ranges:
        if begin <= at and at + size <= end:
            first = plain[offset + at - address : offset + min(at - address + size, in_file)]
            fresh[HEAD + at - begin : HEAD + at - begin + size] = first.ljust(size, b"\0")
    return bytes(fresh)


def differences(plain: bytes, memory: bytes, again: bytes) -> list[str]:
    """Returns the words that two runs of krun.c's make() left different, as text: addresses of what lies elsewhere in each
    process (libraries, heap, stack), thread ids, times. Those that ld.so writes anew at every start do not count.

    Arguments: as with_memory's; again, the memory of the second run, with the same seed.
    """
    if len(memory) != len(again):
        return [f"{len(memory)} and {len(again)} bytes"]
    begin, _, int_type = struct.unpack_from("=QQQ", memory)
    first, second = (memoryview(data)[HEAD:].cast("Q") for data in (memory, again))
    anew = _relocated(plain)
    found = []
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        if one == other or begin + index * 8 in anew:
            continue
        # A digit has 32 bits: behind that of a small int is what the block held before.
        if (
            one & 0xFFFFFFFF == other & 0xFFFFFFFF
            and first[index - 2] == int_type
            and first[index - 1] in SMALL
        ):
            continue
        found.append(f"{begin + index * 8:#x}: {one:#x}, {other:#x}")
    return found


def _monitors_mode() -> None:
    """Gives root's monitor the mode that a wheel loses: pip makes every program 0755 (build_native.py says what it is for)."""
    monitor = build_native.MONITOR
    if os.geteuid() == 0 and monitor.exists() and monitor.stat().st_uid == 0:
        monitor.chmod(build_native.MONITOR_MODE)


def build(folder: Path) -> Path:
    """Makes the launcher in `folder`. Returns its path."""
    _monitors_mode()
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "krun"
    script = SCRIPT.format(
        python=os.environ.get("KRUN_PYTHON", "/usr/bin/python3"), paths=paths(), command=str(command)
    ).encode()
    _replace(folder / "krun.py", script, 0o755)
    (folder / "krun.bundle").unlink(missing_ok=True)  # of former versions
    try:
        made = _link(folder)
    except _Failed as e:
        print(f"krun: no fast launcher, the script takes its place:\n{e}", file=sys.stderr)
        made = False
    if not made:
        (folder / STAMP).unlink(missing_ok=True)
        _replace(command, script, 0o755)
    return command


def main(argv: list[str]) -> int:
    """Command line: the folder. Returns the exit code."""
    if len(argv) != 1:
        print("usage: python -m krun.native.build_launcher FOLDER", file=sys.stderr)
        return 1
    print(f"launcher: {build(Path(argv[0]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
