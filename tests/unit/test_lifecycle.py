"""docs/lifecycle.md has the same numbers and names as the child's list, and the list keeps its promises."""

from __future__ import annotations

import ast
from pathlib import Path

from krun.oci import init
from krun.oci.plan import STAGES

ROOT = Path(__file__).parents[2]


def rows() -> list[tuple[int, str]]:
    found = []
    for line in (ROOT / "docs/lifecycle.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].isdigit():
            found.append((int(cells[0]), cells[1]))
            assert cells[3], f"step {cells[0]} has no reason"
    return found


def test_document_and_order_are_the_same() -> None:
    assert rows() == [(row.number, row.name) for row in init.ORDER]


def test_numbers_are_consecutive() -> None:
    assert [row.number for row in init.ORDER] == list(range(1, len(init.ORDER) + 1))


def test_every_stage_of_a_plan_is_run() -> None:
    assert set(STAGES) <= {row.name for row in init.ORDER}


def test_exec_joins_after_the_procfs_and_the_cgroup() -> None:
    names = [row.name for row in init.EXEC_ORDER]
    assert names.index("proc") < names.index("cgroup") < names.index("join") < names.index("console")
    assert names[-1] == "monitor"


def test_credentials_go_after_all_that_needs_them() -> None:
    names = [row.name for row in init.ORDER]
    for earlier in ("mounts", "pivot", "paths", "process", "stdio"):
        assert names.index(earlier) < names.index("ids")
    assert names.index("ids") < names.index("program") < names.index("limits")


def test_no_import_inside_functions_that_run_in_the_child() -> None:
    """After pivot_root the interpreter's own files are gone."""
    files = (
        "init steps mounts rootfs masks devices procfs cwd namespaces cred labels sched console sync plan"
    ).split()
    for path in [ROOT / f"krun/oci/{name}.py" for name in files] + [
        ROOT / f"krun/kvm/{n}.py" for n in ("boot", "probe")
    ]:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                inside = [
                    node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
                ]
                assert not inside, f"{path.name}: {function.name} imports"


def test_nothing_of_the_hosts_is_open_when_the_credentials_are_the_containers() -> None:
    for order in (init.ORDER, init.EXEC_ORDER):
        names = [row.name for row in order]
        assert names[0] == "parent"
        assert names.index("stdio") < names.index("descriptors") < names.index("ids")


def test_paths_of_the_image_are_opened_in_one_way() -> None:
    """From the pivot (exec: the join) on, a path may lead through a magic link: only openat2(2) refuses those."""
    by_path = {
        "open",
        "stat",
        "lstat",
        "access",
        "chdir",
        "listdir",
        "scandir",
        "readlink",
        "chroot",
        "mkdir",
    }
    for path in (ROOT / "krun/oci/init.py", ROOT / "krun/kvm/probe.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute | ast.Name):
                continue
            name = ast.unparse(call.func)
            by_name = name == "open" or name.partition("os.")[2] in by_path
            assert not by_name or ast.unparse(call.args[0]) == "'/'", f"{path.name}:{call.lineno}: {name}"
