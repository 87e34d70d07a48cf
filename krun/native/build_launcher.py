"""Builds the fast launcher: the executable `krun` (launcher/krun.c, linked with the static libpython), the bundle of the
hot modules' code beside it (`krun.bundle`) and the plain script (`krun.py`) that it falls back to.

`python -m krun.native.build_launcher FOLDER` (./dev setup: build/bin). Without a static libpython, or where the link
fails, the script alone is made, under the name `krun`: nothing but time is lost. The bundle holds the code of every
module that a hot verb imports at the top of a file, or that one of those imports inside a function.
"""

import ast
import hashlib
import importlib.util
import marshal
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from krun.cli.table import VERBS

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SOURCES = (HERE / "launcher" / "krun.c", HERE / "launcher" / "start.py")
MAGIC = b"KRBUNDLE"

#: Compiled modules on hot paths; the module of krun needs cffi's run time first.
COMPILED = {"krun.native._krun": ("_cffi_backend",), "_cffi_backend": (), "_json": ()}
#: Imported inside functions of hot modules, and too rare or too heavy for the bundle: full interpreter.
OUTSIDE = ("krun.cli.app", "krun.oci.network", "krun.oci.systemd")

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
    if not lazy:
        # jsonio: the scanner in C, if there is one.
        for node in tree.body:
            if isinstance(node, ast.Try):
                nodes += [n for n in node.body if isinstance(n, (ast.Import, ast.ImportFrom))]
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
        if row[5]:
            order: list[str] = []
            found[row[0]] = order
            closure("krun.__main__", order)
            closure(row[1].partition(":")[0], order)
    return found


def bundled() -> list[str]:
    """Returns all modules of the bundle."""
    names = [name for order in orders().values() for name in order]
    for name in names:  # grows
        if name in COMPILED:
            continue
        for other in imports(name, lazy=True):
            if other not in OUTSIDE and other != "krun.native.build_native":
                closure(other, names)
    return sorted(set(names))


def module_file(name: str) -> Path:
    """Returns the file of a bundled module."""
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


def bundle() -> bytes:
    """Returns the bundle's bytes: head (struct head of krun.c), start code, index, code of the modules."""
    modules: dict[str, tuple[bool, str, int, int, int, int]] = {}
    codes = []
    offset = 0
    for name in bundled():
        path = module_file(name)
        # Before it is read: an edit in between must look like one.
        found = path.stat()
        code = b""
        if name not in COMPILED:
            code = marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
        package = path.name == "__init__.py"
        modules[name] = (package, str(path), found.st_mtime_ns, found.st_size, offset, len(code))
        codes.append(code)
        offset += len(code)
    index = marshal.dumps((orders(), modules))
    start_file = SOURCES[1]
    start = marshal.dumps(compile(start_file.read_bytes(), str(start_file), "exec", dont_inherit=True))
    head = MAGIC + b"".join(n.to_bytes(4, "little") for n in (sys.hexversion, len(start), len(index), 0))
    return b"".join((head, start, index, *codes))


def is_current(path: Path) -> bool:
    """Tells whether a bundle is what would be made now."""
    return path.exists() and path.read_bytes() == bundle()


def _replace(path: Path, data: bytes, mode: int) -> None:
    if path.exists() and path.read_bytes() == data:
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    fresh.chmod(mode)
    fresh.replace(path)


def paths() -> list[str]:
    """Returns what the launcher adds to sys.path: the source root and the site-packages we run with."""
    return [str(ROOT), sysconfig.get_path("purelib")]


def _link(folder: Path) -> bool:
    """Makes the executable. Returns False where it cannot be made."""
    variables = sysconfig.get_config_vars()
    library = Path(str(variables.get("LIBPL"))) / str(variables.get("LIBRARY"))
    python = os.path.realpath(sys.executable)
    if not library.exists():
        return False
    standard = sysconfig.get_path("stdlib")
    text = {
        "KR_SCRIPT": str(folder / "krun.py"),
        "KR_BUNDLE": str(folder / "krun.bundle"),
        "KR_PATHS": ":".join([standard, str(variables["DESTSHARED"]), *paths()]),
        "KR_PYTHON": python,
        "KR_STDLIB": standard,
    }
    words = [str(variables.get(name) or "") for name in ("LIBS", "SYSLIBS")]
    command = [
        *shlex.split(os.environ.get("CC", "gcc")),
        *("-O2", "-Wall", "-Wextra", "-Werror", "-no-pie", "-Wl,--export-dynamic", "-Wl,--as-needed"),
        *(f'-D{name}="{value}"' for name, value in text.items()),
        *(f"-I{path}" for path in {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}),
        str(SOURCES[0]),
        str(library),
        *shlex.split(" ".join(words)),
        *("-lexpat", "-lz"),
    ]
    stamp = folder / ".krun.stamp"
    seen = f"{shlex.join(command)} {hashlib.sha256(SOURCES[0].read_bytes()).hexdigest()} {library.stat().st_mtime_ns}"
    if (folder / "krun").exists() and stamp.exists() and stamp.read_text() == seen:
        return True
    done = subprocess.run([*command, "-o", str(folder / ".krun.new")], capture_output=True, text=True)
    if done.returncode:
        print(f"krun: no fast launcher, the script takes its place:\n{done.stderr}", file=sys.stderr)
        return False
    (folder / ".krun.new").replace(folder / "krun")
    stamp.write_text(seen)
    return True


def build(folder: Path) -> Path:
    """Makes the launcher in `folder`. Returns its path."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "krun"
    script = SCRIPT.format(
        python=os.environ.get("KRUN_PYTHON", "/usr/bin/python3"), paths=paths(), command=str(command)
    ).encode()
    _replace(folder / "krun.py", script, 0o755)
    # The bundle last: until it is there the executable takes the script.
    if _link(folder):
        _replace(folder / "krun.bundle", bundle(), 0o644)
    else:
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
