"""krun install and krun uninstall: register krun with podman, docker, containerd or CRI-O.

If an engine reads a directory of drop-ins, krun writes a file of its own there. docker's daemon.json and containerd's
config.toml belong to the administrator: krun parses the file before and after the change, keeps the first version
beside it as NAME.krun-orig, and replaces the file atomically with the same mode and owner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from krun.cli.options import Options
from krun.errors import KrunError, SysError, UsageError

#: Both names: krun is this project's, kontain that of the engine it takes the place of.
NAMES = ("krun", "kontain")
_BEGIN = "# >>> krun: written by `krun install`, removed by `krun uninstall` >>>"
_END = "# <<< krun <<<"
_BACKUP = ".krun-orig"


def install(opts: Options) -> int:
    """Register opts.path (default: the command that runs now) with opts.engine; --dry-run shows the
    difference.

    Run again it changes nothing. Errors: UsageError, KrunError for a file it does not understand, SysError.
    """
    engine = _engine(opts.engine)
    return _change(engine, opts, command_path(opts.path), bool(opts.default))


def uninstall(opts: Options) -> int:
    """Take krun out again. Errors: as install."""
    return _change(_engine(opts.engine), opts, None, False)


def command_path(given: str | None) -> str:
    """Return the absolute path to register. Errors: KrunError when there is no such executable."""
    candidates = [given] if given else [sys.argv[0], os.path.join(_source_root(), "build/bin/krun"), _which()]
    for candidate in candidates:
        if not candidate or candidate.endswith(".py"):
            continue
        path = os.path.abspath(candidate)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise KrunError(
        f"install: {given or 'the krun command'} is not an executable file; name it with --path /absolute/path/krun"
    )


def _source_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _which() -> str:
    import shutil

    return shutil.which("krun") or ""


class Engine:
    """How one engine is told of a runtime: its file, the new text for it, and what makes it read the file, after install and
    after uninstall."""

    def __init__(
        self,
        file: Callable[[], str],
        text: Callable[[str, str | None, bool], str],
        hint: str,
        farewell: str,
        ours: bool,
    ) -> None:
        self.file = file
        self.text = text
        self.hint = hint
        self.farewell = farewell
        self.ours = ours  # the whole file is ours: no copy of it is kept


def _engine(name: str) -> Engine:
    try:
        return ENGINES[name]
    except KeyError:
        raise UsageError(f'unknown engine "{name}", use one of {", ".join(ENGINES)}') from None


def _change(engine: Engine, opts: Options, path: str | None, default: bool) -> int:
    # Followed: an administrator's link to a file elsewhere stays a link.
    file = os.path.realpath(opts.file or engine.file())
    old = _read(file)
    try:
        new = engine.text(old, path, default)
    except KrunError as error:
        raise KrunError(f"{file}: {error.message}; nothing was changed") from None
    if new == old:
        sys.stdout.write(f"{file}: nothing to change\n")
        return 0
    if opts.dry_run:
        sys.stdout.write(difference(file, old, new))
        return 0
    if not engine.ours and old and not os.path.exists(file + _BACKUP):
        _write(file + _BACKUP, old, file)
    if new:
        _write(file, new, file)
    else:
        os.unlink(file)  # it held nothing but ours
    sys.stdout.write(f"{file}: {'registered ' + path if path else 'krun removed'}\n")
    sys.stdout.write(f"{engine.hint if path else engine.farewell}\n")
    return 0


def difference(file: str, old: str, new: str) -> str:
    """Return a unified difference."""
    import difflib

    lines = difflib.unified_diff(
        old.splitlines(),
        new.splitlines(),
        file if old else "/dev/null",
        file if new else "/dev/null",
        lineterm="",
    )
    return "".join(line + "\n" for line in lines)


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise KrunError(f"read {file}: not UTF-8; nothing was changed") from None
    except OSError as error:
        raise SysError.of("read", error, file) from None


def _write(file: str, text: str, like: str) -> None:
    """Put `text` into `file` by rename, with the mode and owner of `like` if that exists."""
    temporary = f"{file}.krun-new"
    try:
        os.makedirs(os.path.dirname(file), 0o755, exist_ok=True)
        try:
            info = os.stat(like)
            mode, owner = info.st_mode & 0o7777, (info.st_uid, info.st_gid)
        except FileNotFoundError:
            mode, owner = 0o644, (-1, -1)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchown(fd, *owner)
            os.fchmod(fd, mode)
            # An engine's configuration must survive a power cut in one of its two states.
            os.fsync(fd)
        os.rename(temporary, file)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise SysError.of("write", error, file) from None


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise KrunError(f"invalid TOML: {error}") from None


def _string(text: str) -> str:
    """Return a TOML (and JSON) basic string."""
    from krun.jsonio import dumps

    return dumps(text)


# --- podman
# ----------------------------------------------------------------------------------------------------------


def _podman_file() -> str:
    if os.geteuid() == 0:
        return "/etc/containers/containers.conf.d/50-krun.conf"
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "containers/containers.conf.d/50-krun.conf")


def podman_text(old: str, path: str | None, default: bool) -> str:
    """Return the drop-in of containers.conf(5)."""
    if path is None:
        return ""
    lines = [_BEGIN]
    if default:
        lines += ["[engine]", 'runtime = "krun"', ""]
    lines.append("[engine.runtimes]")
    lines += [f"{name} = [{_string(path)}]" for name in NAMES]
    return "\n".join([*lines, _END]) + "\n"


# --- docker
# ----------------------------------------------------------------------------------------------------------


def docker_text(old: str, path: str | None, default: bool) -> str:
    """Return daemon.json with the runtimes added or removed and the rest as it was (dockerd(8))."""
    import json

    from krun.jsonio import loads

    config = loads(old.encode(), "daemon.json") if old.strip() else {}
    if not isinstance(config, dict) or not isinstance(config.get("runtimes", {}), dict):
        raise KrunError("not an object with an object `runtimes`")
    before = json.dumps(config)
    runtimes = config.get("runtimes", {})
    if path is None:
        for name in NAMES:
            runtimes.pop(name, None)
        if not runtimes:
            config.pop("runtimes", None)
        if config.get("default-runtime") in NAMES:
            del config["default-runtime"]
    else:
        config["runtimes"] = runtimes
        for name in NAMES:
            # Arguments that the administrator gave stay.
            runtimes[name] = {**runtimes.get(name, {}), "path": path}
        if default:
            config["default-runtime"] = "krun"
    if json.dumps(config) == before:
        return old
    if not config:
        return ""
    return json.dumps(config, indent=_indent(old), ensure_ascii=False) + "\n"


def _indent(text: str) -> int | str:
    for line in text.splitlines():
        stripped = line.lstrip()
        if stripped.startswith('"') and stripped != line:
            blanks = line[: len(line) - len(stripped)]
            return blanks if "\t" in blanks else len(blanks)
    return 4


# --- containerd
# ------------------------------------------------------------------------------------------------------


def containerd_text(old: str, path: str | None, default: bool) -> str:
    """Return config.toml with our block at its end, or without it (containerd-config.toml(5), CRI plugin)."""
    head, found, rest = old.partition(_BEGIN)
    bare = old
    if found:
        _, end, tail = rest.partition(_END)
        if not end:
            raise KrunError("the block of krun has no end line, repair it by hand")
        bare = head.rstrip("\n") + "\n" + tail.lstrip("\n") if head.strip() else tail.lstrip("\n")
    if path is None:
        return bare if bare.strip() else ""
    config = _toml(bare)
    version = config.get("version", 1) if bare.strip() else 2
    if version not in (2, 3):
        raise KrunError(
            f"configuration version {version}; bring it to version 2 (containerd config migrate) first"
        )
    plugin = "io.containerd.cri.v1.runtime" if version == 3 else "io.containerd.grpc.v1.cri"
    table = f'plugins."{plugin}".containerd'
    runtimes = config.get("plugins", {}).get(plugin, {}).get("containerd", {}).get("runtimes", {})
    taken = [name for name in NAMES if name in runtimes]
    if taken:
        raise KrunError(f"a runtime {taken[0]} is configured already, remove it first")
    block = [_BEGIN] if bare.strip() else [_BEGIN, "version = 2"]
    for name in NAMES:
        block += [
            f"[{table}.runtimes.{name}]",
            '  runtime_type = "io.containerd.runc.v2"',
            f"  [{table}.runtimes.{name}.options]",
            f"    BinaryName = {_string(path)}",
        ]
        systemd = runtimes.get("runc", {}).get("options", {}).get("SystemdCgroup")
        if isinstance(systemd, bool):
            block.append(f"    SystemdCgroup = {str(systemd).lower()}")
    block.append(_END)
    if default:
        raise KrunError(
            'set the default runtime by hand: default_runtime_name = "krun" in its containerd table'
        )
    start = bare.rstrip("\n") + "\n\n" if bare.strip() else ""
    new = start + "\n".join(block) + "\n"
    # The parser has the last word: an inline table, say, cannot be added to from below.
    _toml(new)
    return new


# --- CRI-O
# -----------------------------------------------------------------------------------------------------------


def crio_text(old: str, path: str | None, default: bool) -> str:
    """Return the drop-in of crio.conf(5)."""
    if path is None:
        return ""
    lines = [_BEGIN]
    if default:
        lines += ["[crio.runtime]", 'default_runtime = "krun"', ""]
    for name in NAMES:
        lines += [
            f"[crio.runtime.runtimes.{name}]",
            f"runtime_path = {_string(path)}",
            'runtime_type = "oci"',
            'runtime_root = "/run/krun"',
        ]
    return "\n".join([*lines, _END]) + "\n"


ENGINES = {
    "podman": Engine(
        _podman_file,
        podman_text,
        "podman reads it at once: podman --runtime krun run ...",
        "podman reads it at once; containers made with it can no longer be started by that name",
        ours=True,
    ),
    "docker": Engine(
        lambda: "/etc/docker/daemon.json",
        docker_text,
        "tell dockerd: kill -HUP $(cat /run/docker.pid), then: docker run --runtime krun ...",
        "restart dockerd: told by SIGHUP it keeps the runtimes that it knows",
        ours=False,
    ),
    "containerd": Engine(
        lambda: "/etc/containerd/config.toml",
        containerd_text,
        "restart containerd; Kubernetes: docs/kubernetes/runtimeclass.yaml",
        "restart containerd; remove the RuntimeClass",
        ours=False,
    ),
    "crio": Engine(
        lambda: "/etc/crio/crio.conf.d/50-krun.conf",
        crio_text,
        "restart crio; Kubernetes: docs/kubernetes/runtimeclass.yaml",
        "restart crio; remove the RuntimeClass",
        ours=True,
    ),
}
