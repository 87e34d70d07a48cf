"""Entry point: reads the command line, runs one verb, prints one error. No other file ends the process."""

import os
import sys
import time

from krun import settings
from krun.cli import fast
from krun.errors import KrunError, UsageError, one_line
from krun.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from krun.cli.options import Options
    from krun.cli.table import Verb


def main(t0: int = 0) -> "NoReturn":
    """Run krun on sys.argv and end the process with its exit code.

    Arguments: t0, when the process began (CLOCK_MONOTONIC in ns), if the launcher knows.
    os._exit: tearing the interpreter down costs 1-2 ms and has nothing to do for us; output is flushed here.
    """
    code = run(sys.argv[1:], t0)
    if sys.stdout is None:  # the fast launcher makes no streams (krun/native/launcher)
        os._exit(code)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        # The reader of our output has closed its end. That is no error of krun, but the exit code must say that
        # the output is not complete.
        code = code or 1
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    os._exit(code)


def run(argv: "list[str]", t0: int = 0) -> int:
    """Run one command line (without the program's name) and return its exit code; errors are logged, not
    raised.
    """
    log = Log()
    try:
        _open_stdio()
        return _run(argv, t0 or time.monotonic_ns(), log)
    except KrunError as error:
        log.error(error.message)
        return error.exit_code
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        log.error("out of memory")
        return 1
    except OSError as error:
        if log.debugging():
            raise
        where = (
            f" {os.fsdecode(error.filename)}"
            if error.filename and not isinstance(error.filename, int)
            else ""
        )
        log.error(f"system call failed{where}: {error.strerror or error}")
        return 1
    except Exception as error:
        if log.debugging():
            raise
        if isinstance(error, ImportError) and "_krun" in str(error):
            log.error(
                f"load krun.native._krun: {one_line(str(error))}; build it: ./dev setup, or pip install . anew"
            )
            return 1
        # A bug of krun must also be one line that an engine can show.
        log.error(f"internal error: {type(error).__name__}: {one_line(str(error))} (--debug shows where)")
        return 1


def _open_stdio() -> None:
    """Opens the null device in place of standard input, output and error that the caller has closed.

    Else the next file that krun opens has their number: the payload and hooks get it, and messages are written to it
    (Go's runtime and the C library of set-user-id programs do the same). Raises OSError.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), True)


def _run(argv: "list[str]", t0: int, log: Log) -> int:
    found: tuple[Verb, Options] | int = fast.parse(argv) or _parse_fully(argv, log)
    if isinstance(found, int):
        return found
    row, opts = found
    opts.settings = _settings(row, opts, log)
    opts.root = state_root(opts)
    opts.t0 = t0
    opts.logger = log
    module, _, function = row.call.partition(":")
    __import__(module)
    code: int = getattr(sys.modules[module], function)(opts)
    return code


def _settings(row: "Verb", opts: "Options", log: Log) -> settings.Settings:
    """Direct the log as the command line or else the administrator says (docs/configuration.md), and return the settings.

    Verbs of krun.cli are for people and work with a wrong file as well: doctor names it. Errors: KrunError.
    """
    found = settings.Settings()
    try:
        if not row.call.startswith("krun.cli."):
            found = settings.load()
    except KrunError:
        log.setup(opts.log, opts.log_format, opts.debug, opts.log_level)
        raise
    level = opts.log_level or (None if opts.debug else found.log_level)
    log.setup(opts.log or found.log_file, opts.log_format or found.log_format, opts.debug, level)
    return found


def _parse_fully(argv: "list[str]", log: Log) -> "tuple[Verb, Options] | int":
    try:
        from krun.cli import app

        return app.parse(argv)
    except UsageError:
        _setup_log_anyway(argv, log)
        raise
    except ImportError as error:
        if error.name != "click":
            raise
        raise KrunError(
            f"read command line {' '.join(argv)!r}: not a plain call; help needs the Python package click"
        ) from None


def _setup_log_anyway(argv: "list[str]", log: Log) -> None:
    """Honour --log and --log-format although the command line is wrong: engines look for the reason there."""
    values: dict[str, str | None] = {"log": None, "log-format": None}
    for index, word in enumerate(argv):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name in values:
            values[name] = value if equals else argv[index + 1] if index + 1 < len(argv) else None
    try:
        log.setup(values["log"], values["log-format"], False)
    except KrunError:
        pass


def state_root(opts: "Options") -> str:
    """Return the absolute directory of all state: --root, else $XDG_RUNTIME_DIR/krun for a user, else
    /run/krun.

    An empty XDG_RUNTIME_DIR counts as unset, because podman passes an empty one. Errors: UsageError for "/".
    """
    root: str | None = opts.root
    if not root:
        user_dir = os.environ.get("XDG_RUNTIME_DIR")
        root = f"{user_dir}/krun" if user_dir and _users_own(opts) else "/run/krun"
    root = os.path.abspath(root)
    if root.lstrip("/") == "":
        raise UsageError("--root must not be /")
    return root


def _users_own(opts: "Options") -> bool:
    """Whether this is a user's krun: not root, or root of a user namespace only (not in a nested engine)."""
    if os.geteuid() != 0 or opts.rootless in ("true", "1"):
        return True
    try:
        fd = os.open("/proc/self/uid_map", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(fd, 4096).split()
        finally:
            os.close(fd)
    except OSError:
        return False
    return fields != [b"0", b"0", b"4294967295"] and os.environ.get("USER") != "root"


if __name__ == "__main__":
    main()
