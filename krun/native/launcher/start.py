"""First code of the launcher (krun.c): preload the hot modules of a verb from the bundle, then krun.__main__.main().

Runs with the interpreter's core alone: what it imports is built in or frozen.  The bundle's index: names of a hot verb to
the order in which its modules are executed; modules to (is a package, source, mtime in ns, size, offset, length), with
a length of 0 for a compiled module.  A source that has another time or size than when the bundle was made sends us to the
plain script.
"""

import marshal
import posix
import sys

import _krun_host as host  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Module: "Any" = type(sys)
Spec: "Any" = type(sys.__spec__)
ORDERS, MODULES = marshal.loads(host.data[host.index : host.modules])
BASE = host.modules
complete: "list[bool]" = []


def unchanged() -> bool:
    """Tell whether every source is what it was when the bundle was made."""
    stat = posix.stat
    try:
        for row in MODULES.values():
            found = stat(row[1])
            if found.st_mtime_ns != row[2] or found.st_size != row[3]:
                return False
    except OSError:
        return False
    return True


def load(name: str) -> None:
    """Execute one module of the bundle whose parents and imports are loaded, or are found when it imports them."""
    package, path, _, _, offset, length = MODULES[name]
    parent, _, last = name.rpartition(".")
    if length == 0:
        module = extension(name, path)
    else:
        module = Module(name)
        space = module.__dict__
        space["__file__"] = path
        space["__package__"] = name if package else parent
        if package:
            space["__path__"] = [path[: path.rindex("/")]]
        sys.modules[name] = module
        try:
            exec(marshal.loads(host.data[BASE + offset : BASE + offset + length]), space)
        except BaseException:
            del sys.modules[name]
            raise
    if parent:
        setattr(sys.modules[parent], last, module)


def extension(name: str, path: str) -> "Any":
    """Load a compiled module."""
    import _imp

    spec = Spec(name, None, origin=path)
    module = _imp.create_dynamic(spec)
    _imp.exec_dynamic(module)
    sys.modules[name] = module
    return module


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
    """What a hot path imports lazily: from the bundle; anything else needs the whole interpreter."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """As importlib.abc.MetaPathFinder."""
        if name in MODULES:
            return Spec(name, Finder, origin=MODULES[name][1], is_package=MODULES[name][0])
        if name == "encodings" and not complete:
            # The registry's first use, for an error handler: those are built in, as are UTF-8, ASCII and Latin-1.
            return Spec(name, Empty)
        whole()
        return None

    @staticmethod
    def create_module(spec: "Any") -> object:
        """As importlib.abc.Loader."""
        import _imp

        return _imp.create_dynamic(spec) if MODULES[spec.name][5] == 0 else None

    @staticmethod
    def exec_module(module: "Any") -> None:
        """As importlib.abc.Loader."""
        name = module.__name__
        package, path, _, _, offset, length = MODULES[name]
        if length == 0:
            import _imp

            _imp.exec_dynamic(module)
            return
        module.__file__ = path
        if package:
            module.__path__ = [path[: path.rindex("/")]]
        exec(marshal.loads(host.data[BASE + offset : BASE + offset + length]), module.__dict__)


def whole() -> None:
    """Make the interpreter whole: importer of files, codecs, streams, collector.  Once."""
    if complete:
        return
    complete.append(True)
    real_os()
    # The finder of files comes behind ours, where the loop over sys.meta_path that calls us reaches it next.
    import _frozen_importlib

    _frozen_importlib._install_external_importers()  # type: ignore[attr-defined]
    sys.path = list(host.paths)
    sys.pycache_prefix, sys.dont_write_bytecode = None, True
    # The codec registry imports `encodings` once only, and may have got the stand-in.
    sys.modules.pop("encodings", None)
    __import__("encodings")
    finders = sys.meta_path[:]
    host.full()
    sys.meta_path[:] = finders
    sys.argv = host.argv
    import gc

    gc.enable()


def real_os() -> "Any":
    """Put the real os in the place of ours; modules that hold ours get what it lacks from there."""
    if sys.modules.get("os") is light:
        del sys.modules["os"]
        sys.modules.pop("posixpath", None)
        import os

        light.__dict__["__getattr__"] = os.__getattribute__
    return sys.modules["os"]


def lacking(name: str) -> "Any":
    """What our os lacks, from the real one (a module's __getattr__)."""
    return getattr(real_os(), name)


def make_light() -> "Any":
    """The part of os that hot paths use, without its 1.2 ms: posix, paths, environ."""
    os = Module("os")
    space = os.__dict__
    space.update(posix.__dict__)
    space["__name__"] = "os"
    space["__getattr__"] = lacking
    space["fsencode"] = fsencode
    space["fsdecode"] = fsdecode
    space["SEEK_SET"], space["SEEK_CUR"], space["SEEK_END"] = 0, 1, 2
    space["sep"], space["curdir"], space["pardir"], space["altsep"] = "/", ".", "..", None
    space["environ"] = {fsdecode(key): fsdecode(value) for key, value in posix.environ.items()}
    sys.modules["os"] = os
    import posixpath

    space["path"] = posixpath
    return os


def fsencode(name: "Any") -> bytes:
    """As os.fsencode."""
    name = posix.fspath(name)
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


def fsdecode(name: "Any") -> str:
    """As os.fsdecode."""
    name = posix.fspath(name)
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def verb() -> "str | None":
    """The first word that is the name of a hot verb; the matcher in krun.cli.fast decides what it really is."""
    for word in sys.argv[1:]:
        if word in ORDERS:
            return word
    return None


sys.argv = host.argv
sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]
chosen = verb()
if chosen is None or not unchanged():
    host.script()
light = make_light()
sys.meta_path.append(Finder)  # type: ignore[arg-type]
try:
    for module_name in ORDERS[chosen]:
        load(module_name)
    sys.modules["krun.__main__"].main(host.t0)
except BaseException:
    whole()  # or the traceback would have no stream to go to
    raise
