"""Device rules of cgroup v2: an eBPF program that the kernel runs at each open and mknod of a device.

Kernel documentation: admin-guide/cgroup-v2 "Device controller", bpf/prog_cgroup_device; bpf(2).
"""

import os

from krun.errors import SysError
from krun.native import _krun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from krun.oci.cgroup.devices import Rule

# linux/bpf.h, struct bpf_cgroup_dev_ctx
_TYPES = {"b": 1, "c": 2}
_ACCESS = {"m": 1, "r": 2, "w": 4}
_ALL = 7

# Opcodes (bpf instruction set, RFC 9669)
_LOAD_WORD = 0x61
_MOVE = 0xBF
_MOVE_VALUE = 0xB7
_AND = 0x57
_SHIFT_RIGHT = 0x77
_JUMP_EQUAL = 0x15
_JUMP_NOT_EQUAL = 0x55
_EXIT = 0x95


def _insn(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return (
        bytes((code, target | source << 4))
        + offset.to_bytes(2, "little", signed=True)
        # 32 bits, whose sign the processor of the program extends: a number from 2^31 on is no device's, and compares so.
        + (value & 0xFFFFFFFF).to_bytes(4, "little")
    )


def assemble(rules: "Sequence[Rule]") -> bytes:
    """Return the program for ordered rules (allow, type a|b|c, major, minor, access); None = any number.

    The last rule that speaks of a request decides, so they are asked from the end: an allow rule speaks of a
    request that wants nothing beyond its access, a deny rule of one that wants any of it. Whatever no rule
    speaks of is denied.
    """
    # r2 type, r3 access wanted, r4 major, r5 minor; r1 (the context) is free afterwards.
    code = [
        _insn(_LOAD_WORD, 3, 1, 0),
        _insn(_MOVE, 2, 3),
        _insn(_AND, 2, value=0xFFFF),
        _insn(_SHIFT_RIGHT, 3, value=16),
        _insn(_LOAD_WORD, 4, 1, 4),
        _insn(_LOAD_WORD, 5, 1, 8),
    ]
    for allow, kind, major, minor, access in reversed(rules):
        everything = kind == "a" and major is None and minor is None
        tests = [] if everything else _tests(allow, kind, major, minor, access)
        block = [*tests, (_MOVE_VALUE, 0, int(allow)), (_EXIT, 0, 0)]
        for index, (op, register, value) in enumerate(block):
            jump = len(block) - index - 1 if op in (_JUMP_EQUAL, _JUMP_NOT_EQUAL) else 0
            if op == _MOVE:
                code.append(_insn(_MOVE, register, value))
            else:
                code.append(_insn(op, register, 0, jump, value))
        if not tests:
            return b"".join(code)  # the verifier refuses code that cannot be reached
    code += [_insn(_MOVE_VALUE, 0, value=0), _insn(_EXIT)]
    return b"".join(code)


def _tests(
    allow: bool, kind: str, major: int | None, minor: int | None, access: str
) -> "list[tuple[int, int, int]]":
    """Return (opcode, register, value): the tests that skip a rule which does not speak of the request."""
    tests = []
    if kind != "a":
        tests.append((_JUMP_NOT_EQUAL, 2, _TYPES[kind]))
    bits = sum(_ACCESS[letter] for letter in set(access))
    if bits != _ALL:
        tests.append((_MOVE, 1, 3))
        if allow:
            tests += [(_AND, 1, _ALL & ~bits), (_JUMP_NOT_EQUAL, 1, 0)]
        else:
            tests += [(_AND, 1, bits), (_JUMP_EQUAL, 1, 0)]
    for register, number in ((4, major), (5, minor)):
        if number is not None:
            tests.append((_JUMP_NOT_EQUAL, register, number))
    return tests


def attach(path: str, rules: "Sequence[Rule]") -> None:
    """Load the program of these rules and attach it to a cgroup v2 directory; it goes with the directory.

    Errors: SysError (EPERM: needs CAP_BPF or CAP_SYS_ADMIN in the host's user namespace).
    """
    code = assemble(rules)
    lib, ffi = _krun.lib, _krun.ffi
    program = lib.kr_bpf_load_device(code, len(code) // 8, ffi.NULL, 0)
    if program < 0:
        words = ffi.new("char[]", 16384)
        again = lib.kr_bpf_load_device(code, len(code) // 8, words, 16384)
        if again < 0:
            raise SysError(
                "load device program for", path, -again, ffi.string(words).decode("utf-8", "replace")
            )
        program = again
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            result = lib.kr_bpf_attach_device(directory, program)
        finally:
            os.close(directory)
    except OSError as error:
        raise SysError.of("open cgroup", error, path) from None
    finally:
        os.close(program)
    if result < 0:
        raise SysError("attach device program to cgroup", path, -result)
