"""Builds the compiled parts: the cffi module `_krun`, the freestanding executable `krun-monitor`, the static `krun-probe`.

`python -m krun.native.build_native [module] [monitor] [probe] [--force] [--debug]` builds in place; `_backend.py` does the same
for wheels and editable installs. `monitor --ubsan` builds another one, build/native-ubsan/krun-monitor, for the fuzzer.
An object is rebuilt if its source or a header that it included (gcc -MMD) is newer, or if its command line has changed;
two compilers run at a time. Outputs are replaced by rename: a running monitor keeps its file.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULE = HERE / "_krun.abi3.so"
# The payload of `krun conformance`. It has a libc, unlike the monitor, because it is an ordinary program in a container.
PROBE = HERE.parent / "conformance" / "krun-probe"
PROBE_CFLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
MONITOR = HERE / "krun-monitor"
# Nobody has the right to read the file that is executed: kvm/image.py says why, and mends the mode of an ordinary user's build, which
# must be readable for the packager.
MONITOR_MODE = 0o111 if os.geteuid() == 0 else 0o755
# The same program for what must read it, to copy it into memory: without debugging information, a tenth of the size.
READABLE = HERE / "krun-monitor.readable"
OBJECTS = Path(os.environ.get("KRUN_BUILD_DIR", HERE.parents[1] / "build" / "native"))
CC = shlex.split(os.environ.get("CC", "gcc"))
JOBS = 2

# One declaration file per host/ file: cffi reads them, host.h includes them, so they cannot differ.
CDEFS = ("mount", "ns", "path", "cred", "fdio", "tty", "bpf")

WARNINGS = ["-Wall", "-Wextra", "-Werror"]
MODULE_CFLAGS = ["-std=gnu11", "-O2", "-g", "-fPIC", "-fvisibility=hidden", *WARNINGS]

# The monitor has no libc, no TLS, no stack protector (its canary lives in TLS) and no start-up code but its own.
MONITOR_CFLAGS = [
    "-std=gnu11",
    "-O2",
    "-g",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fPIE",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-mno-red-zone",
    "-Wall",
    "-Wextra",
    "-Werror",
]
# The functions of frequent calls lie together.
MONITOR_LAYOUT = HERE / "monitor" / "hot.ld"
MONITOR_LDFLAGS = ["-static-pie", "-nostdlib", "-Wl,-z,noexecstack", "-Wl,-z,relro,-z,now", "-Wl,--build-id"]
# Undefined behaviour ends the process with its place named (tests/fuzz/ubsan.c is the sanitizer's run time). Left out: alignment (the
# ABI's packed structures), null (the window begins near address zero).
UBSAN_CFLAGS = [
    "-fno-wrapv",
    "-fsanitize=undefined,bounds-strict,float-divide-by-zero",
    "-fno-sanitize=alignment,null,vptr,pointer-overflow",
    "-fno-sanitize-recover=all",
]
MONITOR_FOLDERS = ("lib", "table", "machine", "process", "view", "filter", "sys", "local", "monitor", "guest")
MONITOR_INCLUDES = [f"-I{HERE}"]


def monitor_sources() -> list[Path]:
    """Returns the monitor's sources: every .c and .S of its folders, sorted, so that a build is repeatable."""
    return sorted(
        p for folder in MONITOR_FOLDERS for ext in ("*.c", "*.S") for p in (HERE / folder).glob(ext)
    )


def cdef() -> str:
    """Returns the declarations of the module, in the order of CDEFS."""
    return "\n".join((HERE / "cdef" / f"{name}.h").read_text() for name in CDEFS)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"krun: native build: {shlex.join(command)}\n{done.stdout}{done.stderr}")


def _prerequisites(depfile: Path) -> list[Path]:
    """Returns the files named by a gcc -MMD file; empty if there is none."""
    if not depfile.exists():
        return []
    text = depfile.read_text().replace("\\\n", " ")
    return [Path(word) for word in text.partition(":")[2].split()]


def _is_current(output: Path, inputs: list[Path], command: list[str]) -> bool:
    """Tells whether `output` is newer than its inputs and was made by the same command."""
    stamp = output.with_name(output.name + ".cmd")
    if not output.exists() or not stamp.exists() or stamp.read_text() != shlex.join(command):
        return False
    made = output.stat().st_mtime_ns
    return all(path.exists() and path.stat().st_mtime_ns <= made for path in inputs)


def _stamp(output: Path, command: list[str]) -> None:
    output.with_name(output.name + ".cmd").write_text(shlex.join(command))


def _compile(source: Path, folder: Path, flags: list[str], force: bool) -> Path:
    """Compiles one file into `folder` if needed and returns the object."""
    name = f"{source.parent.name}_{source.name}.o"
    output = folder / name
    depfile = output.with_suffix(".d")
    command = [*CC, *flags, "-MMD", "-MF", str(depfile), "-c", str(source), "-o", str(output)]
    if force or not _is_current(output, [source, *_prerequisites(depfile)], command):
        _run(command)
        _stamp(output, command)
    return output


def compile_all(sources: list[Path], folder: Path, flags: list[str], force: bool) -> list[Path]:
    """Compiles what is not current into `folder` and returns the objects. Raises SystemExit with the compiler's words."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(lambda source: _compile(source, folder, flags, force), sources))


def link(
    objects: list[Path],
    output: Path,
    folder: Path,
    flags: list[str],
    force: bool,
    mode: int = 0o755,
    layout: Path | None = None,
) -> None:
    """Links in `folder`, if needed, and renames, so that a reader never sees half a file. Raises SystemExit.

    layout: a linker script that is an input as well.
    """
    work = folder / output.name
    command = [*CC, "-o", str(work), *map(str, objects), *flags]
    inputs = [*objects]
    if layout:
        command.append(f"-Wl,-T,{layout}")
        inputs.append(layout)
    is_current = (
        output.exists() and output.stat().st_mode & 0o777 == mode and _is_current(work, inputs, command)
    )
    if force or not is_current:
        _run(command)
        _stamp(work, command)
        _put(work, output, mode)


def _put(source: Path, output: Path, mode: int) -> None:
    """Copies a file by rename: a reader never sees half of it, a process that runs it keeps its own."""
    fresh = output.with_name(f".{output.name}.new")
    fresh.write_bytes(source.read_bytes())
    fresh.chmod(mode)
    fresh.replace(output)


def build_module(force: bool = False) -> Path:
    """Builds `krun/native/_krun.abi3.so` (cffi, API mode, limited API: one file for every Python from 3.11 on).

    Returns its path. Raises SystemExit with the compiler's words.
    """
    import cffi

    folder = OBJECTS / "module"
    folder.mkdir(parents=True, exist_ok=True)
    builder = cffi.FFI()
    builder.cdef(cdef())
    builder.set_source("krun.native._krun", '#include "host/host.h"\n', py_limited_api=True)
    glue = folder / "_krun.c"
    # Keeps the old file (and its time) if the text is the same.
    builder.emit_c_code(str(glue))
    include = sysconfig.get_path("include")
    # The glue is cffi's text, not ours: its warnings are not errors.
    glue_flags = [
        "-O2",
        "-g0",
        "-fPIC",
        "-w",
        f"-I{HERE}",
        f"-I{include}",
        f"-I{sysconfig.get_path('platinclude')}",
    ]
    objects = compile_all(sorted((HERE / "host").glob("*.c")), folder, [*MODULE_CFLAGS, f"-I{HERE}"], force)
    objects.append(_compile(glue, folder, glue_flags, force))
    link(objects, MODULE, folder, ["-shared", "-Wl,-z,relro,-z,now"], force)
    return MODULE


def build_monitor(force: bool = False, debug: bool = False) -> Path | None:
    """Builds `krun/native/krun-monitor`, a static PIE without libc, and the readable file beside it.

    Returns the former's path, or None if the tree has no monitor sources. Raises SystemExit with the compiler's words.
    """
    sources = monitor_sources()
    if not sources:
        return None
    folder = OBJECTS / ("monitor-debug" if debug else "monitor")
    flags = [*MONITOR_CFLAGS, *MONITOR_INCLUDES]
    if debug:
        flags = ["-O0" if flag == "-O2" else flag for flag in flags] + ["-DKR_DEBUG=1"]
    objects = compile_all(sources, folder, flags, force)
    link(objects, MONITOR, folder, [*MONITOR_LDFLAGS, "-fPIE"], force, MONITOR_MODE, MONITOR_LAYOUT)
    if not READABLE.exists() or READABLE.stat().st_mtime_ns < MONITOR.stat().st_mtime_ns:
        small = folder / READABLE.name
        _run(["strip", "--strip-debug", "-o", str(small), str(folder / MONITOR.name)])
        _put(small, READABLE, 0o644)
    return MONITOR


def build_ubsan_monitor(force: bool = False) -> Path:
    """Builds `build/native-ubsan/krun-monitor`: the same sources, undefined behaviour made fatal.

    Returns its path. Raises SystemExit with the compiler's words.
    """
    folder = OBJECTS.parent / "native-ubsan"
    flags = [*MONITOR_CFLAGS, *UBSAN_CFLAGS, *MONITOR_INCLUDES]
    runtime = HERE.parents[1] / "tests" / "fuzz" / "ubsan.c"
    objects = compile_all([*monitor_sources(), runtime], folder / "objects", flags, force)
    output = folder / "krun-monitor"
    link(objects, output, folder / "objects", [*MONITOR_LDFLAGS, "-fPIE"], force, layout=MONITOR_LAYOUT)
    return output


def build_probe(force: bool = False) -> Path:
    """Builds `krun/conformance/krun-probe`, a static program: a container's root that holds nothing else can run it.

    Returns its path. Raises SystemExit with the compiler's words.
    """
    folder = OBJECTS / "probe"
    sources = [PROBE.with_name(name) for name in ("probe.c", "serve.c")]
    objects = compile_all(sources, folder, PROBE_CFLAGS, force)
    link(objects, PROBE, folder, ["-static", "-s", "-Wl,--build-id"], force)
    return PROBE


def build(force: bool = False) -> list[Path]:
    """Builds everything; returns the files made (or found current)."""
    made = [build_module(force), build_monitor(force), build_probe(force)]
    return [path for path in made if path is not None]


def main(argv: list[str]) -> int:
    """Command line: names of parts (all if none), --force, --debug, --ubsan. Returns the exit code."""
    force, debug = "--force" in argv, "--debug" in argv
    if "--ubsan" in argv:
        print(f"monitor: {build_ubsan_monitor(force)}")
        return 0
    makers = {
        "module": build_module,
        "monitor": lambda force: build_monitor(force, debug),
        "probe": build_probe,
    }
    for part in [arg for arg in argv if not arg.startswith("--")] or list(makers):
        if part not in makers:
            print(f"krun: native build: unknown part {part}", file=sys.stderr)
            return 1
        path = makers[part](force)
        print(f"{part}: {path}" if path else f"{part}: no sources")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
