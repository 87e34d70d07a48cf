"""Builds the guest corpus: one program per tests/guest/*.c, in the variants its directives name.

A directive line in a source file: `// krun: static musl timeout=30 args=a,b exit=SIGTERM`.
  static static-pie no-pie musl musl-static   further variants besides the default (dynamic PIE, glibc); `all` = all five
  only=V             this variant instead of the default one
  args=A,B  env=K=V  what the program is started with        timeout=S  seconds (default 20)
  exit=N|SIGNAME     the status it must end with (default 0)
  so                 also build NAME.so from the same file with -DSHARED_OBJECT
  host               needs what an ordinary container does not have (full root, host files): not run in containers
  cc=FLAG            a compiler flag
"""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = Path(os.environ.get("KRUN_GUEST_BUILD", HERE.parent.parent / "build" / "guest"))
CFLAGS = [
    "-std=gnu11",
    "-O0",
    "-g",
    "-Wall",
    "-Wextra",
    "-pthread",
    "-fmax-errors=3",
]  # -O0: locals survive a siglongjmp
CFLAGS += [
    "-Wno-" + w
    for w in (
        "unused-parameter",
        "nonnull",
        "stringop-overflow",
        "stringop-overread",
        "unused-result",
        "return-type",
        "infinite-recursion",
    )
]
LIBS = ["-lm", "-ldl", "-lrt"]
VARIANTS = {
    "": ["gcc", "-fPIE", "-pie"],
    "static": ["gcc", "-static", "-no-pie", "-fno-pie"],
    "static-pie": ["gcc", "-static-pie", "-fPIE"],
    "no-pie": ["gcc", "-no-pie", "-fno-pie"],
    "musl": ["musl-gcc", "-fPIE", "-pie"],
    "musl-static": ["musl-gcc", "-static", "-no-pie", "-fno-pie"],
}


class Program:
    """One source file and what its directives say."""

    def __init__(self, source):
        self.source, self.name, self.family = source, source.stem, source.stem.split("_")[0]
        self.variants, self.args, self.env, self.cc = [""], [], {}, []
        self.timeout, self.exit, self.shared, self.host = 20, 0, False, False
        # Lines of their own, or the end of the comment: clang-format may join a directive to the text above it, and break it.
        head = list(itertools.takewhile(lambda line: line.startswith("//"), source.read_text().splitlines()))
        own = [line[9:] for line in head if line.startswith("// krun: ")]
        joined = " ".join(line[2:].strip() for line in head).partition("krun: ")[2]
        for word in " ".join(own or [joined]).split():
            self.directive(word)

    def directive(self, word):
        key, _, value = word.partition("=")
        if key == "all":
            self.variants = list(VARIANTS)
        elif key in VARIANTS and not value:
            self.variants.append(key)
        elif key == "only":
            self.variants.remove("")
            self.variants.append(value)
        elif key == "args":
            self.args = value.split(",")
        elif key == "env":
            name, _, text = value.partition("=")
            self.env[name] = text
        elif key == "timeout":
            self.timeout = int(value)
        elif key == "exit":
            self.exit = value if value.startswith("SIG") else int(value)
        elif key == "so":
            self.shared = True
        elif key == "host":
            self.host = True
        elif key == "cc":
            self.cc.append(value)
        else:
            raise ValueError(f"{self.source.name}: unknown directive {word}")

    def binary(self, variant):
        return OUT / (self.name + ("." + variant if variant else ""))


def programs(patterns=()):
    found = [Program(path) for path in sorted(HERE.glob("*.c"))]
    return [p for p in found if not patterns or any(Path(p.name).match(pattern) for pattern in patterns)]


def stale(binary, source):
    newest = max(source.stat().st_mtime, (HERE / "guest.h").stat().st_mtime)
    return not binary.exists() or binary.stat().st_mtime < newest


def compile_one(program, variant):
    """Compiles one variant unless it is up to date; returns the compiler's text if it failed or warned."""
    binary = program.binary(variant)
    said = ""
    if program.shared and stale(Path(str(binary) + ".so"), program.source):
        cc = VARIANTS[variant][0]
        command = [
            cc,
            *CFLAGS,
            "-DSHARED_OBJECT",
            "-shared",
            "-fPIC",
            str(program.source),
            "-o",
            str(binary) + ".so",
        ]
        said += subprocess.run(command, capture_output=True, text=True, check=False).stderr
    if stale(binary, program.source):
        binary.unlink(missing_ok=True)
        command = [*VARIANTS[variant], *CFLAGS, *program.cc, str(program.source), "-o", str(binary), *LIBS]
        said += subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return said


def build(chosen, jobs=2):
    """Builds all variants of the chosen programs; raises with the compilers' words if one does not build."""
    OUT.mkdir(parents=True, exist_ok=True)
    work = [(program, variant) for program in chosen for variant in program.variants]
    with ThreadPoolExecutor(jobs) as pool:
        said = list(pool.map(lambda pair: compile_one(*pair), work))
    missing = [p.binary(v).name for p, v in work if not p.binary(v).exists()]
    text = "".join(said)
    if missing:
        raise RuntimeError(f"did not build: {' '.join(missing)}\n{text}")
    return text


if __name__ == "__main__":
    chosen = programs(sys.argv[1:])
    sys.stderr.write(build(chosen))
    print(sum(len(p.variants) for p in chosen), "binaries of", len(chosen), "programs in", OUT)
