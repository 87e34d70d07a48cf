"""Finds and classifies the payload's program, and checks that this KVM can run the monitor, before `create` returns.

`find_program` and `classify` run in the child after pivot_root(2), with the payload's credentials. Their errors have runc's
words, because engines look for these words to choose the exit code 126 or 127.
"""

import os
from errno import EACCES, EISDIR
from stat import S_ISDIR, S_ISREG

from krun.errors import KrunError, SysError, strerror
from krun.sysio import AT_FDCWD, RESOLVE_NO_MAGICLINKS, lib, try_openat2

SHEBANG_LIMIT = 256  # BINPRM_BUF_SIZE of execve(2)
SHEBANG_DEPTH = 4  # "interpreter recursion" of execve(2): ELOOP beyond

_MACHINES = {
    3: "i386",
    40: "arm",
    183: "aarch64",
    243: "riscv64",
    21: "ppc64",
    22: "s390x",
    8: "mips",
    258: "loongarch64",
}


def _quote(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def open_image_file(path: str, flags: int = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY) -> int:
    """Opens a file of the image by the image's own path, from inside: no magic link, no blocking, no terminal.

    Returns the descriptor or -errno. THE one way in which krun opens a path that the image or its processes choose:
    a magic link of /proc leads past the container's root (CVE-2024-21626), a FIFO waits for ever.
    """
    return try_openat2(AT_FDCWD, path, flags, RESOLVE_NO_MAGICLINKS)


def _executable(path: str) -> int:
    """0 if `path` is a regular file we may execute, else the errno that execve(2) would give."""
    fd = open_image_file(path, os.O_PATH)
    if fd < 0:
        return -fd
    try:
        mode = os.fstat(fd).st_mode
        if S_ISDIR(mode):
            return EISDIR
        if not S_ISREG(mode):
            return EACCES
        # For root, access(2) asks for any x bit, as execve(2) does; a noexec mount answers EACCES too.
        return 0 if lib.kr_faccess(fd, os.X_OK) == 0 else EACCES
    finally:
        os.close(fd)


def find_program(word: str, path_variable: "str | None") -> str:
    """Finds the program for args[0] as runc does.

    Arguments: word, args[0]; path_variable, PATH of the payload's environment, None if it has none.
    Returns its path. Raises KrunError in runc's words: not found, no such file, permission denied, is a directory.
    """
    if "/" in word:
        number = _executable(word)
        if number == 0:
            return word
        if number == EISDIR:
            # Podman looks for "permission denied" (126), dockerd for "is a directory" (126).
            raise KrunError(f"exec: {_quote(word)}: is a directory: permission denied")
        if number == EACCES:
            raise KrunError(f"exec: {_quote(word)}: permission denied")
        raise KrunError(f"exec: {_quote(word)}: stat {word}: {strerror(number)}")
    for folder in (path_variable or "").split(":") if path_variable is not None else ():
        path = f"{folder or '.'}/{word}"
        if _executable(path) == 0:
            return path
    # One that may not be executed counts as none, unlike in execvp(3): engines exit with 127, not 126.
    raise KrunError(f"exec: {_quote(word)}: executable file not found in $PATH")


def classify(path: str, depth: int = 0) -> "tuple[str, str]":
    """Tells what a program is: ("elf", path) for an x86-64 ELF executable, ("script", path of the last interpreter).

    Follows `#!` up to four levels, as execve(2). Raises KrunError for what the monitor cannot run: 32-bit, another
    architecture, not an ELF, an interpreter that is missing.
    """
    fd = open_image_file(path)
    if fd < 0:
        raise KrunError(f"exec: {_quote(path)}: {strerror(-fd)}")
    try:
        if not S_ISREG(os.fstat(fd).st_mode):
            raise KrunError(f"exec: {_quote(path)}: permission denied")
        head = os.read(fd, SHEBANG_LIMIT)
    except OSError as e:
        raise SysError("read", path, e.errno or 0) from None
    finally:
        os.close(fd)
    if head[:2] == b"#!":
        return _script(path, head, depth)
    check_elf(path, head)
    return "elf" if depth == 0 else "script", path


def _script(path: str, head: bytes, depth: int) -> "tuple[str, str]":
    if depth >= SHEBANG_DEPTH:
        raise KrunError(f"exec: {_quote(path)}: too many levels of interpreters")
    line = head[2:].split(b"\n", 1)[0].strip(b" \t")
    interpreter = line.replace(b"\t", b" ").split(b" ", 1)[0].decode("utf-8", "surrogateescape")
    if not interpreter:
        raise KrunError(f"exec: {_quote(path)}: exec format error: its #! line names no interpreter")
    number = _executable(interpreter)
    if number:
        # execve(2) gives the interpreter's errno for the script; the text says which of the two is meant.
        raise KrunError(f"exec: {_quote(path)}: interpreter {interpreter}: {strerror(number)}")
    return classify(interpreter, depth + 1)


def check_elf(path: str, head: bytes) -> None:
    """Raises KrunError unless `head` begins an ELF64 executable for x86-64 and Linux (elf(5))."""
    what = f"exec: {_quote(path)}: exec format error"
    if head[:4] != b"\x7fELF":
        raise KrunError(f"{what}: neither an ELF program nor a script with #!")
    if len(head) < 64:
        raise KrunError(f"{what}: truncated ELF header")
    machine = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    if machine not in (62, 3):
        name = _MACHINES.get(machine, f"machine {machine}")
        raise KrunError(f"{what}: built for {name}, this host runs x86-64 programs")
    if head[4] != 2 or machine == 3:
        kind = "32-bit" if machine == 3 else "x32 (ILP32)"
        raise KrunError(f"{what}: {kind} programs are not supported by krun, use a 64-bit build")
    if head[5] != 1:
        raise KrunError(f"{what}: big-endian ELF")
    if head[7] not in (0, 3):
        raise KrunError(f"{what}: built for another operating system (ELF OSABI {head[7]})")
    if int.from_bytes(head[16:18], "little") not in (2, 3):
        raise KrunError(f"{what}: not an executable ELF file")
