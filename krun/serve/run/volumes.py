"""Volumes: what stands in the directories, and how they are mounted (core/v1 Volume; kubernetes, volume/util/atomic_writer.go).

The server resolves a manifest's volumes to plain descriptions (`plan`); the worker makes the directories (`publish`) and the
mounts (`mounts`). A payload may write an emptyDir: its subPath is opened inside the directory, so that no symlink of the
payload's leads out of it (CVE-2017-1002101).
"""

import base64
import json
import os
import stat
import time
from collections.abc import Callable
from typing import Any

from krun.mountio import mount
from krun.serve.run.errors import StartError
from krun.serve.run.rootdir import RootDir
from krun.treeio import remove_tree

Lookup = Callable[[str, str], "dict[str, Any] | None"]
_DEFAULT_MODE = 0o644
#: Volumes of an instance, and mounts of a container: all instances' are in one mount namespace, which has 100000 (proc(5), mount-max).
_COUNT = 200
_MOST = 32 << 20  # bytes of the files of an instance's volumes, without its emptyDirs
_MS_BIND = 4096


class Sources:
    """The ConfigMaps and Secrets that an instance refers to: each is decoded once, and what is taken of them has a bound.

    A manifest of 3 MiB can name an object of 1 MiB 50000 times. Arguments: lookup; most, bytes; what they are, for the error.
    """

    def __init__(self, lookup: Lookup, most: int, what: str) -> None:
        self._lookup = lookup
        self._known: dict[tuple[str, str], dict[str, bytes] | None] = {}
        self._most = self._left = most
        self._what = what

    def data(self, kind: str, name: str) -> "dict[str, bytes] | None":
        """Return the keys of an object with their bytes, None where there is no such object."""
        if (kind, name) not in self._known:
            obj = self._lookup(kind, name)
            self._known[kind, name] = None if obj is None else data_of(kind, obj)
        return self._known[kind, name]

    def take(self, data: bytes) -> bytes:
        """Count bytes that the instance gets, and return them. Raises StartError."""
        self._left -= len(data)
        if self._left < 0:
            raise StartError("CreateContainerConfigError", f"{self._what}: more than {self._most} bytes")
        return data


def plan(volumes: list[dict[str, Any]], lookup: Lookup, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Describe the volumes of an instance: {"name", "files": {path: [base64, mode]}} or {"name", "empty": {"memory", "limit"}}.

    Arguments: volumes, core/v1; lookup, from kind ("ConfigMap", "Secret") and name to the object or None; facts, for projections:
    "token" (audience, seconds -> text), "pod" (an object for downward API paths). Raises StartError (CreateContainerConfigError).
    """
    _counted(volumes, "volumes")
    planned = []
    sources = Sources(lookup, _MOST, "the files of all volumes")
    for volume in volumes:
        if "emptyDir" in volume:
            own = volume["emptyDir"] or {}
            planned.append(
                {
                    "name": volume["name"],
                    "empty": {"memory": own.get("medium") == "Memory", "limit": own.get("sizeLimit")},
                }
            )
        else:
            planned.append({"name": volume["name"], "files": _files(volume, sources, facts)})
    return planned


def _counted(listed: list[Any], what: str) -> None:
    if len(listed) > _COUNT:
        raise StartError("CreateContainerConfigError", f"{what}: more than {_COUNT}")


def _files(volume: dict[str, Any], sources: Sources, facts: dict[str, Any]) -> dict[str, list[Any]]:
    if "configMap" in volume:
        return _of_object(
            "ConfigMap", volume["configMap"], volume["configMap"].get("name", ""), sources, None
        )
    if "secret" in volume:
        return _of_object("Secret", volume["secret"], volume["secret"].get("secretName", ""), sources, None)
    if "projected" in volume:
        return _projected(volume["projected"] or {}, sources, facts)
    if "downwardAPI" in volume:
        own = volume["downwardAPI"] or {}
        return _downward(own.get("items") or [], own.get("defaultMode"), sources, facts)
    kinds = sorted(set(volume) - {"name"})
    raise StartError(
        "CreateContainerConfigError",
        f"volume {volume['name']}: {', '.join(kinds) or 'no source'} is not supported",
    )


def _projected(own: dict[str, Any], sources: Sources, facts: dict[str, Any]) -> dict[str, list[Any]]:
    """Sources in their order: a later file of the same path wins."""
    found: dict[str, list[Any]] = {}
    mode = own.get("defaultMode")
    for source in own.get("sources") or []:
        if "configMap" in source:
            found |= _of_object(
                "ConfigMap", source["configMap"], source["configMap"].get("name", ""), sources, mode
            )
        elif "secret" in source:
            found |= _of_object("Secret", source["secret"], source["secret"].get("name", ""), sources, mode)
        elif "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            text = facts["token"](token.get("audience", ""), int(token.get("expirationSeconds") or 3600))
            found[_path(token["path"])] = _entry(sources, text.encode(), mode if mode is not None else 0o600)
        elif "downwardAPI" in source:
            found |= _downward(source["downwardAPI"].get("items") or [], mode, sources, facts)
        else:
            raise StartError(
                "CreateContainerConfigError", f"projected source {sorted(source)} is not supported"
            )
    return found


def data_of(kind: str, obj: dict[str, Any]) -> dict[str, bytes]:
    """Return the keys of a ConfigMap or a Secret with their bytes."""
    found: dict[str, bytes] = {}
    if kind == "Secret":
        for key, text in (obj.get("data") or {}).items():
            found[key] = base64.b64decode(text)
    else:
        for key, text in (obj.get("data") or {}).items():
            found[key] = text.encode()
        for key, text in (obj.get("binaryData") or {}).items():
            found[key] = base64.b64decode(text)
    return found


def _of_object(
    kind: str, own: dict[str, Any], name: str, sources: Sources, mode: int | None
) -> dict[str, list[Any]]:
    data = sources.data(kind, name)
    word = kind.lower()
    if data is None:
        if own.get("optional"):
            return {}
        raise StartError("CreateContainerConfigError", f'{word} "{name}" not found')
    default = own.get("defaultMode") if own.get("defaultMode") is not None else mode
    if not own.get("items"):
        return {key: _entry(sources, value, default) for key, value in data.items()}
    found = {}
    for item in own["items"]:
        if item["key"] not in data:
            if own.get("optional"):
                continue
            raise StartError(
                "CreateContainerConfigError", f"references non-existent {word} key: {item['key']}"
            )
        found[_path(item["path"])] = _entry(
            sources, data[item["key"]], item["mode"] if item.get("mode") is not None else default
        )
    return found


def _downward(
    items: list[dict[str, Any]], mode: int | None, sources: Sources, facts: dict[str, Any]
) -> dict[str, list[Any]]:
    found = {}
    for item in items:
        field = (item.get("fieldRef") or {}).get("fieldPath", "")
        found[_path(item["path"])] = _entry(
            sources, field_text(facts["pod"], field).encode(), item.get("mode") or mode
        )
    return found


def field_text(pod: dict[str, Any], path: str) -> str:
    """Return the text of a downward API field (metadata.name, metadata.labels['x'], ...). Raises StartError for others."""
    if path in ("metadata.labels", "metadata.annotations"):
        values = pod["metadata"].get(path.split(".")[1]) or {}
        return "\n".join(f"{key}={json.dumps(value)}" for key, value in sorted(values.items()))
    for prefix in ("metadata.labels['", "metadata.annotations['"):
        if path.startswith(prefix) and path.endswith("']"):
            return str((pod["metadata"].get(prefix[9:-2]) or {}).get(path[len(prefix) : -2], ""))
    value: Any = pod
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise StartError("CreateContainerConfigError", f"unsupported fieldPath: {path}")
    return value


def _entry(sources: Sources, data: bytes, mode: int | None) -> list[Any]:
    return [base64.b64encode(sources.take(data)).decode(), _DEFAULT_MODE if mode is None else mode]


def _path(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or path.startswith(".."):
        raise StartError(
            "CreateContainerConfigError",
            f"invalid path {path!r}: it must be relative and must not contain '..'",
        )
    return os.path.normpath(path)


def publish(directory: str, files: dict[str, list[Any]]) -> None:
    """Make the files of a volume visible at once: a new directory behind the symlink `..data`, which is renamed over the old one.

    The directory is the platform's; payloads have it read-only. Raises OSError.
    """
    stamp = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime()) + os.urandom(4).hex()
    fresh = os.path.join(directory, stamp)
    os.makedirs(fresh, 0o755)
    for path, (text, mode) in files.items():
        target = os.path.join(fresh, path)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        with open(target, "xb") as file:
            file.write(base64.b64decode(text))
        os.chmod(target, mode & 0o777)
    link = os.path.join(directory, "..data")
    old = os.readlink(link) if os.path.islink(link) else None
    os.symlink(stamp, f"{link}_tmp")
    os.rename(f"{link}_tmp", link)
    wanted = {path.split("/", 1)[0] for path in files}
    for name in os.listdir(directory):
        if not name.startswith("..") and name not in wanted:
            os.unlink(os.path.join(directory, name))
    for name in wanted:
        if not os.path.lexists(os.path.join(directory, name)):
            os.symlink(f"..data/{name}", os.path.join(directory, name))
    if old is not None and "/" not in old:
        remove_tree(os.path.join(directory, old))


def mounts(
    container: dict[str, Any], directories: dict[str, str], writable: set[str], scratch: str, bound: list[str]
) -> list[dict[str, Any]]:
    """Return the OCI mounts of a container's volumeMounts.

    Arguments: directories, volume name -> directory; writable, names of emptyDirs; scratch, a directory of the container's own;
    bound, gets the mount points made there for each subPath, which the caller unmounts. The runtime opens its sources by path
    later, so a subPath becomes a mount of what was opened inside the volume. Raises StartError, OSError, SysError.
    """
    found = []
    listed = container.get("volumeMounts") or []
    _counted(listed, "volumeMounts")
    for number, own in enumerate(listed):
        name = own["name"]
        if name not in directories:
            raise StartError("CreateContainerConfigError", f"volumeMount {name}: there is no such volume")
        path = directories[name]
        if own.get("subPath"):
            path = _bind_inside(
                path, _path(own["subPath"]), name in writable, os.path.join(scratch, f"volume-{number}")
            )
            bound.append(path)
        readonly = name not in writable or bool(own.get("readOnly"))
        options = ["rbind", "rprivate", "nosuid", "nodev", "ro" if readonly else "rw"]
        found.append({"destination": own["mountPath"], "type": "bind", "source": path, "options": options})
    return found


def _bind_inside(volume: str, inside: str, create: bool, target: str) -> str:
    """Bind what a path inside a volume leads to onto a new file or directory; returns that one."""
    with RootDir(volume) as root:
        if create and root.stat(inside) is None:
            root.make_directory(inside, 0o777)
        fd = root.open(inside)
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(target)
        else:
            open(target, "xb").close()
        mount(f"/proc/self/fd/{fd}", target, None, _MS_BIND)
    finally:
        os.close(fd)
    return target
