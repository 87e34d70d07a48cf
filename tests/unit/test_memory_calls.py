"""Who may give the kernel an address of memory: one file of the monitor (krun/native/machine/hostmem.c), which checks it.

Every other memory call of the sources stands in OTHERS, with the reason why no address of the payload's can be in it.
"""

import re
from pathlib import Path

from krun.native.build_native import MONITOR_FOLDERS

NATIVE = Path(__file__).resolve().parents[2] / "krun" / "native"
FOLDERS = MONITOR_FOLDERS

#: Calls that map, move, unmap or change memory by address.
MEMORY = (
    "mmap munmap mremap mprotect pkey_mprotect madvise process_madvise mlock mlock2 munlock mlockall munlockall"
    " msync mincore mbind remap_file_pages shmat shmdt brk mseal set_mempolicy_home_node map_shadow_stack"
)
NUMBERS = {462: "mseal", 440: "process_madvise", 450: "set_mempolicy_home_node", 453: "map_shadow_stack"}

#: Numbers of calls named for other ends than making them.
NAMED = {
    "lib/kr_linux.h": "numbers that older headers lack",
    "filter/jail.c": "rows and rules of the filter",
    "filter/profile.c": "rows of the filter",
    "machine/window.h": "after which calls a program touches memory",
    "local/accepted.c": "after which calls what is known of a connection stays true",
    "sys/mman.c": "numbers for kr_host_forward(), which checks the range",
}

#: file -> call -> the texts of its uses outside of hostmem.c, with the reason.
OTHERS = {
    "lib/kr_alloc.c": {
        "mmap": [
            "kr_sys6(__NR_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (u64)-1, 0)"
        ],
        "munmap": ["kr_sys2(__NR_munmap, p, KR_PAGE_UP(size))"],  # what it gave out itself
    },
    "lib/kr_guard.c": {  # heap, data, tables: of the monitor's making
        "pkey_mprotect": ["kr_sys4(__NR_pkey_mprotect, addr, len, PROT_READ | PROT_WRITE, kr_guard.key)"]
    },
    "sys/aio.c": {
        "munmap": ["kr_sys2(__NR_munmap, c->host, c->ring_size)"]
    },  # above the window: open_context()
    "process/alone.c": {  # a vCPU, and a mapping that shows whether a new one has room
        "mmap": ["kr_sys6(__NR_mmap, 0, vm->run_size, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, (u64)-1, 0)"],
        "munmap": ["kr_sys2(__NR_munmap, v->run, vm->run_size)", "kr_sys2(__NR_munmap, p, vm->run_size)"],
    },
    "process/board.c": {
        "mmap": [
            "kr_sys6(__NR_mmap, 0, KR_BOARD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)kr_boot.fd_board, 0)"
        ],
        "munmap": ["kr_sys2(__NR_munmap, p, KR_BOARD_SIZE)"],
    },
    "process/bury.c": {  # records; stacks of a dead task and of its errands
        "mmap": [
            "kr_sys6(__NR_mmap, 0, KR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (u64)-1, 0)"
        ],
        "madvise": ["kr_sys3(__NR_madvise, p, KR_PAGE, MADV_DONTFORK)"],
        "munmap": [
            "kr_sys2(__NR_munmap, l, KR_PAGE)",
            "kr_sys2(__NR_munmap, o->errand_stack[i], KR_STACK_SIZE + KR_STACK_GUARD)",
            "kr_sys2(__NR_munmap, stack, size)",
        ],
    },
    "process/clone.c": {  # host stacks and vCPUs: of the monitor's making
        "mmap": [
            "kr_sys6(__NR_mmap, 0, STACK_SIZE + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |"
            " MAP_STACK, (u64)-1, 0)"
        ],
        "mprotect": ["kr_sys3(__NR_mprotect, p + GUARD, STACK_SIZE, PROT_READ | PROT_WRITE)"],
        "munmap": [
            "kr_sys2(__NR_munmap, p, STACK_SIZE + GUARD)",
            "kr_sys2(__NR_munmap, c->stack, STACK_SIZE + GUARD)",
        ],
    },
    "process/observe.c": {  # a part of the board
        "mmap": [
            "kr_sys6(__NR_mmap, 0, KR_OBSERVE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)kr_boot.fd_board, "
            "KR_OBSERVE_AT)"
        ],
        "munmap": ["kr_sys2(__NR_munmap, p, KR_OBSERVE_SIZE)"],
    },
    "monitor/main.c": {
        "mmap": ["kr_sys6(__NR_mmap, 0, (u64)size, PROT_READ, MAP_PRIVATE, (u64)fd, 0)"],
        "mprotect": [  # RELRO of its own file
            "kr_sys3(__NR_mprotect, KR_PAGE_DOWN(base + ph[i].p_vaddr), KR_PAGE_DOWN(base + ph[i].p_vaddr +"
            " ph[i].p_memsz) - KR_PAGE_DOWN(base + ph[i].p_vaddr), PROT_READ)"
        ],
    },
    "machine/remap.c": {"mseal": ["kr_sys3(__NR_mseal, 0, 0, 0)"]},  # asks for the call's existence
    "process/private.c": {"munmap": ["kr_sys2(__NR_munmap, stack, KR_STACK_SIZE + KR_STACK_GUARD)"]},
    "process/task.c": {  # stacks of threads that are gone; a thread's own stack, from registers
        "munmap": ["kr_sys2(__NR_munmap, o->stack, o->stack_size)", "__NR_munmap;"]
    },
    "machine/vm.c": {
        "mmap": [
            "kr_sys6(__NR_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (u64)-1, 0)",
            "kr_sys6(__NR_mmap, 0, vm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, (u64)v->fd, 0)",
        ],
        "munmap": ["kr_sys2(__NR_munmap, run, vm->run_size)", "kr_sys2(__NR_munmap, v->run, vm->run_size)"],
    },
    "view/procsize.c": {  # changes nothing; addresses of the kernel's list of the monitor's own mappings
        "mincore": ["kr_sys3(__NR_mincore, at, n * KR_PAGE, in)"]
    },
}


def call_text(text: str, at: int) -> str:
    """The whole call around position `at`, on one line; the word itself where it is no argument of a call."""
    start = max(text.rfind(f, 0, at) for f in ("kr_sys", "kr_call_intr", "kr_forward"))
    if start < 0 or at - start > 24:
        return text[at : text.index("\n", at)].strip()
    depth = 0
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if text[end] == ")" and depth == 0:
            return " ".join(text[start : end + 1].split())
    raise AssertionError(f"unbalanced: {text[start : start + 80]}")


def memory_calls() -> dict[str, dict[str, list[str]]]:
    names = set(MEMORY.split())
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted(p for d in FOLDERS for p in (NATIVE / d).iterdir() if p.suffix in (".c", ".h", ".S")):
        text = path.read_text()
        hits = [(m.start(), m[1]) for m in re.finditer(r"__NR_(\w+)", text) if m[1] in names]
        hits += [
            (m.start(1), NUMBERS[int(m[1])])
            for m in re.finditer(r"kr_(?:sys\d|call_intr|forward)\(\s*(\d+)", text)
            if int(m[1]) in NUMBERS
        ]
        for at, name in sorted(hits):
            calls = found.setdefault(str(path.relative_to(NATIVE)), {}).setdefault(name, [])
            if (use := call_text(text, at)) not in calls:
                calls.append(use)
    return found


def test_memory_calls_are_made_in_one_file() -> None:
    found = memory_calls()
    here = found.pop("machine/hostmem.c")
    assert {"mmap", "munmap", "mprotect", "mremap", "madvise", "shmat", "remap_file_pages"} <= set(here)
    for name in NAMED:
        for uses in found.pop(name, {}).values():
            assert all(not use.startswith("kr_sys") for use in uses), f"{name} makes the call itself: {uses}"
    assert found == OTHERS


def test_no_fixed_place_elsewhere() -> None:
    """Where the kernel chooses the place (address 0), no flag may fix one; every address given is hostmem.c's."""
    for name, calls in OTHERS.items():
        for text in calls.get("mmap", ()):
            assert re.match(r"kr_sys6\(__NR_mmap, 0, ", text), f"{name}: {text}"
            assert "FIXED" not in text, f"{name}: {text}"


def test_chunks_are_looked_up_behind_their_check() -> None:
    """vm->chunk[] has an entry a chunk of the window and no more: two functions index it, called behind a check of the address."""
    uses = {
        (path.name, word): len(re.findall(rf"\b{re.escape(word)}", path.read_text()))
        for d in FOLDERS
        for path in (*(NATIVE / d).glob("*.c"), *(NATIVE / d).glob("*.h"))
        for word in ("chunk[", "kr_chunk_find(")
        if word in path.read_text()
    }
    assert uses == {
        ("slots.h", "chunk["): 1,
        ("slots.h", "kr_chunk_find("): 1,
        ("slots.c", "chunk["): 1,
        ("slots.c", "kr_chunk_find("): 1,
        ("pt.c", "kr_chunk_find("): 1,
    }
    checked = (
        ("slots.c", "int kr_vm_cover(", "end > KR_WINDOW_END", "cover(vm"),
        ("pt.c", "static u64 window_gpa(", ">= KR_WINDOW_END", "kr_chunk_find("),
    )
    for name, function, check, use in checked:
        body = (NATIVE / "machine" / name).read_text().partition(function)[2].partition("\n}")[0]
        assert body.index(check) < body.index(use), f"{name}: the check comes first"
