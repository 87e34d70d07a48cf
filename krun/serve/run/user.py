"""The user that a container runs as: the manifest's numbers, else the image's USER, looked up in the image's own files."""

from typing import Any

from krun.serve.run.errors import StartError
from krun.serve.run.rootdir import RootDir

_LARGEST_ID = (1 << 31) - 1
_DIGITS = 10  # of it; int() refuses thousands of them with an error of its own


def of(root: RootDir, image_user: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return `process.user` of config.json.

    Arguments: root, for the image's /etc/passwd and /etc/group; image_user, "user[:group]" by name or number; context, the
    container's securityContext (runAsUser, runAsGroup, runAsNonRoot). Raises StartError (CreateContainerConfigError) for a
    name that the image does not have, and for uid 0 where runAsNonRoot forbids it (Kubernetes, kuberuntime security_context.go).
    """
    word, _, group_word = image_user.partition(":")
    if context.get("runAsUser") is not None:
        uid = int(context["runAsUser"])
        group_word = ""
        entry = _passwd(root, uid=uid)
    else:
        entry = (
            _passwd(root, name=word)
            if word and not word.isdecimal()
            else _passwd(root, uid=_number(word or "0", image_user))
        )
        if entry is None and word and not word.isdecimal():
            raise _refused(f"unable to find user {word}: no matching entries in passwd file")
        uid = _number(word, image_user) if word.isdecimal() else entry[1] if entry else 0
    gid = entry[2] if entry else 0
    if group_word:
        gid = _number(group_word, image_user) if group_word.isdecimal() else _group(root, group_word)
    if context.get("runAsGroup") is not None:
        gid = int(context["runAsGroup"])
    if not (0 <= uid <= _LARGEST_ID and 0 <= gid <= _LARGEST_ID):
        raise _out_of_range(image_user)
    if uid == 0 and context.get("runAsNonRoot"):
        raise _refused("container has runAsNonRoot and image will run as root")
    extra = sorted({number for number in _groups_of(root, entry[0]) if number != gid}) if entry else []
    return {"uid": uid, "gid": gid, "umask": 0o022, "additionalGids": extra}


def home(root: RootDir, uid: int) -> str:
    """Return the home directory that the image's passwd gives to a user, "/" where it has none."""
    entry = _passwd(root, uid=uid)
    return entry[3] if entry and entry[3] else "/"


def _number(word: str, image_user: str) -> int:
    """Return the number of a decimal word of an image's USER. Raises StartError."""
    if len(word) > _DIGITS:
        raise _out_of_range(image_user)
    return int(word)


def _is_id(text: str) -> bool:
    """Whether a field of passwd or group is a number that can be an id; a line with another one is none."""
    return text.isdecimal() and len(text) <= _DIGITS


def _out_of_range(image_user: str) -> StartError:
    return _refused(f"the image's user {image_user[:64]!r} is out of range")


def _refused(text: str) -> StartError:
    return StartError("CreateContainerConfigError", text)


def _passwd(
    root: RootDir, *, name: str | None = None, uid: int | None = None
) -> "tuple[str, int, int, str] | None":
    """Return name, uid, gid and home of the first line that fits (passwd(5))."""
    for line in root.read("/etc/passwd").splitlines():
        parts = line.split(":")
        if len(parts) >= 6 and _is_id(parts[2]) and _is_id(parts[3]):
            if parts[0] == name or (name is None and int(parts[2]) == uid):
                return parts[0], int(parts[2]), int(parts[3]), parts[5]
    return None


def _group(root: RootDir, name: str) -> int:
    for line in root.read("/etc/group").splitlines():
        parts = line.split(":")
        if len(parts) >= 3 and parts[0] == name and _is_id(parts[2]):
            return int(parts[2])
    raise _refused(f"unable to find group {name}: no matching entries in group file")


def _groups_of(root: RootDir, name: str) -> list[int]:
    """The groups that name the user as a member (group(5))."""
    numbers = []
    for line in root.read("/etc/group").splitlines():
        parts = line.split(":")
        if len(parts) >= 4 and name in parts[3].split(",") and _is_id(parts[2]):
            numbers.append(int(parts[2]))
    return numbers
