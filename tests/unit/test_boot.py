"""The boot block's numbers are those of abi/boot.h, and its bytes what the monitor's parser expects."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest

from krun.errors import KrunError
from krun.kvm import board, boot, probe

HEADER = (Path(__file__).parents[2] / "krun/native/abi/boot.h").read_text()


def records(block: bytes) -> list[tuple[int, bytes]]:
    magic, version, size = struct.unpack_from("<QII", block)
    assert (magic, version, size) == (boot.MAGIC, boot.VERSION, len(block))
    found, at = [], 16
    while at < size:
        tag, flags, length = struct.unpack_from("<HHI", block, at)
        assert flags == 0
        found.append((tag, block[at + 8 : at + 8 + length]))
        at += 8 + (length + 7) // 8 * 8
    assert at == size
    return found


def test_tags_are_those_of_the_header() -> None:
    tags = {name: int(value) for name, value in re.findall(r"KR_BOOT_([A-Z0-9_]+)\s*=\s*(\d+)", HEADER)}
    ours = {name: value for name, value in vars(boot).items() if name in tags}
    assert ours == {name: tags[name] for name in ours}
    assert {"EXE_PATH", "FD_KVM", "FD_START", "RLIMIT_STACK", "T0"} <= set(ours)
    assert len(set(tags.values())) == len(tags), "C lets two records have one number"


def test_the_bits_of_proc_flags_differ() -> None:
    """They stand in the headers of those who read them, and with them the flags of the boot block that a process keeps."""
    native = Path(__file__).parents[2] / "krun/native"
    text = "".join(header.read_text().replace("\\\n", " ") for header in sorted(native.rglob("*.h")))
    found = {
        name: int(value, 0) for name, value in re.findall(r"#define (KR_(?:PROC|BOOT)F_\w+)\s+(\w+)u\b", text)
    }
    assert {"KR_PROCF_USERNS", "KR_PROCF_UNDUMPABLE", "KR_BOOTF_JAILED"} <= set(found)
    assert all(value.bit_count() == 1 for value in found.values()), found
    assert len(set(found.values())) == len(found), found


def test_flags_and_magic_are_those_of_the_header() -> None:
    for name, value in re.findall(r"#define KR_BOOTF_([A-Z]+) (\d+)u", HEADER):
        # The monitor has flags of its own (for its later selves); those that we set must be the same.
        assert getattr(boot, f"FLAG_{name}", int(value)) == int(value)
    magic = re.search(r"KR_BOOT_MAGIC (0x[0-9a-f]+)ULL", HEADER)
    version = re.search(r"KR_BOOT_VERSION (\d+)", HEADER)
    assert magic and version
    assert (boot.MAGIC, boot.VERSION) == (int(magic[1], 16), int(version[1]))


def test_block() -> None:
    block = boot.Block()
    block.add(boot.EXE_PATH, b"/bin/x")
    block.number(boot.T0, 5)
    block.hook("/h", ["h", "a"], ["A=b"], 3)
    block.hook("/h", [], None, None)
    found = records(block.done())
    assert found[0] == (boot.EXE_PATH, b"/bin/x")
    assert found[1] == (boot.T0, struct.pack("<Q", 5))
    assert found[2] == (boot.HOOK, struct.pack("<IIII", 3, 2, 1, 1) + b"/h\0h\0a\0A=b\0")
    assert found[3] == (boot.HOOK, struct.pack("<IIII", 0, 0, 0, 0) + b"/h\0")
    assert found[-1] == (0, b"")


def test_find_program(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.write_text("x")
    plain = tmp_path / "plain"
    plain.write_text("x")
    with pytest.raises(KrunError, match='exec: ".*/plain": permission denied'):
        probe.find_program(str(plain), None)
    program.chmod(0o755)
    assert probe.find_program("prog", f"/nope:{tmp_path}") == str(program)
    assert probe.find_program(str(program), None) == str(program)
    with pytest.raises(KrunError, match=r'exec: "nope": executable file not found in \$PATH'):
        probe.find_program("nope", str(tmp_path))
    # As runc, not as execvp(3): a file in PATH that may not be executed is none.
    with pytest.raises(KrunError, match=r'exec: "plain": executable file not found in \$PATH'):
        probe.find_program("plain", str(tmp_path))
    with pytest.raises(KrunError, match=r'exec: "prog": executable file not found in \$PATH'):
        probe.find_program("prog", None)
    with pytest.raises(KrunError, match='exec: "/nope": stat /nope: no such file or directory'):
        probe.find_program("/nope", None)
    with pytest.raises(KrunError, match="is a directory: permission denied"):
        probe.find_program(str(tmp_path), None)


def test_the_board_is_that_of_the_header() -> None:
    header = (Path(__file__).parents[2] / "krun/native/process/board.h").read_text()

    def number(name: str) -> int:
        found = re.search(rf"#define KR_BOARD_{name} (0x[0-9a-f]+|\d+)", header)
        assert found
        return int(found[1], 0)

    assert (board.MAGIC, board.WORDS) == (number("MAGIC"), number("WORDS"))
    assert board.WORDS_AT == board.HEADER + number("ENTRIES") * 32
    assert number("COUNTS") == board.COUNTS
    assert number("CALLS") == board.CALLS
    for name, index in (
        ("EXITS", board.EXITS),
        ("REFUSED", board.REFUSED),
        ("UNKNOWN", board.UNKNOWN),
        ("CALLS", board.CALLS_AT),
        ("DONE", board.COMPLETED),
        ("DECLINED", board.DECLINED),
    ):
        assert re.search(rf"KR_BOARDC_{name} =\s+{index},", header)
    ways = (Path(__file__).parents[2] / "krun/native/table/rows.h").read_text()
    ways = re.sub(r"/\*.*?\*/", "", ways.partition("enum kr_way {")[2].partition("}")[0], flags=re.S)
    names = [name.partition("=")[0].strip() for name in ways.split(",")]
    assert {name: names.index(f"KR_WAY_{name.upper()}") for name in board.WAYS} == board.WAYS
    assert set(names) - {f"KR_WAY_{name.upper()}" for name in board.WAYS} == {
        "KR_WAY_NONE",
        "KR_WAY_CHANGES",
        "",
    }
    assert re.search(r"u64 magic, cookie;\n    u32 said", header) and board.SAID_AT == 16
    assert re.search(r"char text\[252\]", header) and board.WORDS_SIZE == 4 + 252


def test_last_words(tmp_path: Path) -> None:
    path = tmp_path / "board"
    assert board.last_words(str(path)) == []
    with path.open("w+b", buffering=0) as file:
        board.fill(file.fileno())
        assert board.last_words(str(path)) == []

        def say(number: int, text: bytes) -> None:
            at = board.WORDS_AT + number % board.WORDS * board.WORDS_SIZE
            os.pwrite(file.fileno(), struct.pack("<I252s", number, text), at)
            os.pwrite(file.fileno(), struct.pack("<I", number + 1), board.SAID_AT)

        say(0, b"KVM_RUN: errno 9")
        say(1, b"two\nlines \x1b[31m\xff" + b"x" * 300)
        assert board.last_words(str(path)) == [(0, "KVM_RUN: errno 9"), (1, "two?lines ?[31m?" + "x" * 236)]
        for number in range(2, 20):
            say(number, b"%d" % number)
        assert board.last_words(str(path)) == [(n, str(n)) for n in range(4, 20)]
        # A monitor that was taken over writes any number and any size.
        os.pwrite(file.fileno(), b"\xff" * 4, board.SAID_AT)
        assert len(board.last_words(str(path))) == 16
        file.truncate(board.WORDS_AT - 1)
        assert board.last_words(str(path)) == []
