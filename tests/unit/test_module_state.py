"""No module of krun keeps state between two containers: one process serves many (oci/container.py).

The test reads the sources. Constants are tables that nothing changes; everything else that outlives a call needs a row in KEPT.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Module to the names that change at run time, with the reason why two containers may share them.
KEPT = {
    # Functions of the compiled module _json, found at their first use, and the empty `memo` that it asks for.
    "krun.jsonio": {"_scan", "_quote", "_Context"},
    # How far the interpreter has come: once for the process, whatever it runs.
    "krun.native.launcher.start": {"sys", "complete", "extensions"},
    # Made once from a data file of the package that nothing changes: schemas and the documents that follow from them.
    "krun.serve.model.schema": {"_data", "of", "expanded"},
    "krun.serve.api.openapi": {"document"},
}
CHANGING = set(
    "append extend insert remove pop clear sort reverse add discard update setdefault popitem appendleft".split()
)
CACHES = {"cache", "lru_cache", "cached_property"}


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "krun").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        # Programs of the build run once and end.
        if "native" not in path.parts or "launcher" in path.parts:
            found[name] = path
    return found


def top_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            names |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    return names


def local_names(function: ast.AST) -> set[str]:
    names = {
        arg.arg for node in ast.walk(function) if isinstance(node, ast.arguments) for arg in ast.walk(node)
        if isinstance(arg, ast.arg)
    }  # fmt: skip
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def changed(tree: ast.Module) -> set[str]:
    """Names of the module's top level that a function or a statement of the top level changes."""
    top, found = top_names(tree), set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        told = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        found |= told
        mine = top - local_names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                base, changes = node.func.value, node.func.attr in CHANGING
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
                base, changes = node.value, True
            else:
                continue
            if changes and isinstance(base, ast.Name) and base.id in mine:
                found.add(base.id)
    return found


def kept_by_functions(tree: ast.Module) -> set[str]:
    """Functions that remember: a cache, or a default value that is one object for all calls; and classes with such a member."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for deco in node.decorator_list
                     for one in ast.walk(deco) if isinstance(one, ast.Name | ast.Attribute)}  # fmt: skip
            values = [*node.args.defaults, *node.args.kw_defaults]
            if marks & CACHES or any(isinstance(one, ast.List | ast.Dict | ast.Set) for one in values):
                found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                value = getattr(member, "value", None)
                if isinstance(member, ast.Assign | ast.AnnAssign) and isinstance(
                    value, ast.List | ast.Dict | ast.Set
                ):
                    found.add(node.name)
    return found


@pytest.mark.parametrize("name", modules())
def test_a_module_keeps_no_state(name: str) -> None:
    tree = ast.parse(modules()[name].read_text())
    wanted = KEPT.get(name, set())
    assert changed(tree) | kept_by_functions(tree) == wanted, (
        f"{name}: pass it to whoever needs it, or give the reason in KEPT"
    )


@pytest.mark.parametrize(
    "source",
    [
        "a = 1\ndef f():\n    global a\n    a = 2",
        "a = []\ndef f():\n    a.append(1)",
        "a = {}\ndef f():\n    a['x'] = 1",
        "a = {}\ndef f():\n    del a['x']",
        "a = object()\ndef f():\n    a.b = 1",
        "def f(a=[]): ...",
        "import functools\n@functools.lru_cache(maxsize=1)\ndef f(): ...",
        "class A:\n    b = {}",
    ],
)
def test_state_is_found(source: str) -> None:
    tree = ast.parse(source)
    assert changed(tree) | kept_by_functions(tree)


def test_the_environment_is_read_at_the_edge() -> None:
    """Container code that a server calls must not follow the server's own environment (NOTIFY_SOCKET, LISTEN_FDS)."""
    readers = {
        name
        for name, path in modules().items()
        if name.startswith("krun.oci") and "os.environ" in path.read_text()
    }
    assert readers == {
        "krun.oci.caller",  # what krun's caller passes
        "krun.oci.hooks",  # a hook without env inherits the runtime's (runc)
        "krun.oci.ps",  # PATH of ps(1)
        "krun.oci.cgroup.dbus",  # addresses of the buses
    }
