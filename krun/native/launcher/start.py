"""First Python code of the launcher (krun.c). While the launcher is made, it loads every module of the hot verbs. When the
launcher runs, krun.c calls resume().

Only the interpreter's core is there: this file imports built-in and frozen modules only. krun.c puts two names here.
BUNDLE has the modules in the order of their execution: name to (is a package, path, code). COMPILED has the shared
objects: name to path. A shared object cannot be part of the kept memory, so it is loaded at its first use.
"""

import posix
import sys

import _krun_host as host  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Module: "Any" = type(sys)
Spec: "Any" = type(sys.__spec__)
MODULES, COMPILED, HOT = globals()["BUNDLE"]
ready: "list[bool]" = []
complete: "list[bool]" = []


def load(name: str) -> None:
    """Execute one module whose parents and imports are loaded."""
    package, path, code = MODULES[name]
    parent, _, last = name.rpartition(".")
    module = Module(name)
    space = module.__dict__
    space["__file__"] = path
    space["__package__"] = name if package else parent
    if package:
        space["__path__"] = [path[: path.rindex("/")]]
    sys.modules[name] = module
    exec(code, space)
    if parent:
        setattr(sys.modules[parent], last, module)


class Late:
    """Stands for an attribute of a compiled module that is not loaded yet; keeps what was asked for."""

    def __init__(self, module: str, name: str) -> None:
        self.__dict__["_where"] = (module, name)

    def __getattr__(self, word: str) -> "Any":
        module, name = self.__dict__["_where"]
        found = getattr(getattr(extension(module), name), word)
        self.__dict__[word] = found
        return found


extensions: "dict[str, Any]" = {}


def extension(name: str) -> "Any":
    """Return a compiled module, loaded once."""
    if name not in extensions:
        import _imp

        if name == "krun.native._krun":
            sys.modules["_cffi_backend"] = extension("_cffi_backend")
        spec = Spec(name, None, origin=COMPILED[name])
        extensions[name] = _imp.create_dynamic(spec)
        _imp.exec_dynamic(extensions[name])
    return extensions[name]


class Empty:
    """Loader of a module with nothing in it."""

    @staticmethod
    def create_module(spec: "Any") -> object:
        """As importlib.abc.Loader."""
        return None

    @staticmethod
    def exec_module(module: "Any") -> None:
        """As importlib.abc.Loader."""


class Finder:
    """A module that is not in the memory needs the whole interpreter, unless it is a compiled module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """As importlib.abc.MetaPathFinder."""
        if name in COMPILED:
            return Spec(name, Finder, origin=COMPILED[name])
        if name == "encodings" and not complete:
            # The registry's first use, for an error handler: those are built in, as are UTF-8, ASCII and Latin-1.
            return Spec(name, Empty)
        if not ready:
            raise ImportError(f"{name} is imported before it is loaded, or is not among the hot modules")
        whole()
        return None

    @staticmethod
    def create_module(spec: "Any") -> object:
        """As importlib.abc.Loader."""
        return extension(spec.name)

    @staticmethod
    def exec_module(module: "Any") -> None:
        """As importlib.abc.Loader."""


def whole() -> None:
    """Make the interpreter whole: importer of files, codecs, streams, collector.  Once."""
    if complete:
        return
    complete.append(True)
    # The finder of files comes behind ours, where the loop over sys.meta_path that calls us reaches it next.
    import _frozen_importlib

    _frozen_importlib._install_external_importers()  # type: ignore[attr-defined]
    sys.path = list(host.paths)
    sys.pycache_prefix, sys.dont_write_bytecode = None, True
    # The codec registry imports `encodings` once only, and may have got the stand-in. From 3.13 on the second phase makes a
    # new registry, which imports it.
    sys.modules.pop("encodings", None)
    if sys.version_info < (3, 13):
        __import__("encodings")
    finders, line = sys.meta_path[:], sys.argv
    host.full()
    sys.meta_path[:] = finders
    sys.argv = line
    import gc

    gc.enable()


def touched(light: "tuple[Any, ...]", others: "tuple[Any, ...]") -> None:
    """Say which objects the hot verbs touch: what the functions that they call name (host.choose, blocks.c).

    Arguments: the code of the functions that short verbs call, and of those that only create, run and exec call. Only while the
    launcher is made, the first time.
    """
    import gc

    known: dict[int, Any] = {id(thing): thing for thing in gc.get_objects()}
    everything = list(known.values())
    for thing in everything:  # grows
        for part in gc.get_referents(thing):
            if id(part) not in known:
                known[id(part)] = part
                everything.append(part)
    Touched(light, everything, 1)
    Touched(others, everything, 2)


#: Characters of a text that explains a function.
LONG = 100


class Touched:
    """What some functions touch goes into one part of the memory."""

    def __init__(self, codes: "tuple[Any, ...]", everything: "list[Any]", part: int) -> None:
        self.part = part
        self.names: set[str] = set()
        self.used: set[int] = set()
        self.seen: set[int] = set()
        for code in codes:
            self.code(code)
        functions = [thing for thing in everything if type(thing) is type(load)]
        for function in functions:
            # Each import inside of a function goes through the importer. Of the standard library the name must do.
            space = function.__globals__["__name__"]
            if space in ("_frozen_importlib", "__main__") or (
                space in ("os", "posixpath", "genericpath", "codecs") and function.__name__ in self.names
            ):
                self.code(function.__code__)
        for function in functions:
            if id(function.__code__) in self.used:
                self.function(function)
        for thing in everything:
            if isinstance(thing, (type, Module)):
                self.members(thing)

    def choose(self, *things: object) -> None:
        for thing in things:
            host.choose(thing, self.part)

    def code(self, code: "Any") -> None:
        """The code of a function with that of its comprehensions."""
        self.used.add(id(code))
        self.choose(code)
        self.names.update(code.co_names)
        for value in code.co_consts:
            if type(value) is type(code) and value.co_name[0] == "<":
                self.code(value)
        for value in (code.co_name, code.co_qualname, code.co_names, code.co_consts):
            self.data(value)

    def function(self, function: "Any") -> None:
        space, cells = function.__globals__, function.__closure__
        self.choose(function, space, function.__defaults__, function.__kwdefaults__, cells, *(cells or ()))
        for word in function.__code__.co_names:
            if word in space:
                self.data(space[word])

    def data(self, value: "Any") -> None:
        """An object with all that it consists of."""
        if id(value) in self.seen or isinstance(value, (type(load), type(load.__code__))):
            return
        if type(value) is str and len(value) > LONG:
            return
        self.seen.add(id(value))
        self.choose(value)
        if isinstance(value, type):
            self.choose(value.__mro__)
        elif not isinstance(value, Module):
            import gc

            for part in gc.get_referents(value):
                self.data(part)

    def members(self, space: "Any") -> None:
        """What an attribute's name may lead to."""
        for word, value in vars(space).items():
            if word in self.names and not isinstance(value, (type(load), Module)):
                self.choose(value)


def resume(line: "list[str]", environment: "dict[bytes, bytes]", t0: int) -> None:
    """Run one command.

    Arguments: line, argv; environment; t0, when the process began (CLOCK_MONOTONIC in ns).
    """
    # The first word that is the name of a hot verb; the matcher in krun.cli.fast decides what it really is.
    for word in line[1:]:
        if word in HOT:
            break
    else:
        host.script()
    # os.environ and os.environb are views of this very dictionary, which is empty.
    posix.environ.update(environment)
    sys.argv = line
    try:
        main(t0)
    except BaseException:
        whole()  # or the traceback would have no stream to go to
        raise


sys.meta_path.append(Finder)  # type: ignore[arg-type]
stand_in = sys.modules["krun.native._krun"] = Module("krun.native._krun")
for word in ("ffi", "lib"):
    setattr(stand_in, word, Late("krun.native._krun", word))
for word in MODULES:
    load(word)
if sys.version_info >= (3, 13):
    # For the registry of codecs, which krun.c makes next. Not by the finder: the lock of an import is taken by a thread's number.
    sys.modules["encodings"] = Module("encodings")
main = sys.modules["krun.__main__"].main
sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
posix.environ.clear()
ready.append(True)
# Code is in the functions now.
MODULES = dict.fromkeys(MODULES)
