"""linux.seccomp -> classic BPF for KR_BOOT_SECCOMP; the only file that imports libseccomp's bindings.

The monitor evaluates the filter for each call of the payload (filter/seccomp.h), and installs it in the kernel for its own calls
(filter/profile.h). Compiling takes 60 ms with the imports, so krun keeps the result beside the containers' state,
in a file whose name is the profile's hash.
"""

import os
from stat import S_ISREG

from krun.errors import ConfigError, KrunError
from krun.fileio import replace_file
from krun.jsonio import dumps
from krun.oci.fields import SECCOMP_ACTIONS, SECCOMP_FLAGS, SECCOMP_OPERATORS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Part of the hash: a change of the compiler below makes old files useless.
_FORMAT = "krun-seccomp-1"
_EPERM = 1
_ENOSYS = 38
_AT = "/linux/seccomp"


# config-linux.md, "architectures": a profile may name any of them; a payload's calls are all of x86-64.
ARCHITECTURES = frozenset(
    "SCMP_ARCH_" + name
    for name in (
        "X86 X86_64 X32 ARM AARCH64 MIPS MIPS64 MIPS64N32 MIPSEL MIPSEL64 MIPSEL64N32 PPC PPC64 PPC64LE S390 S390X "
        "PARISC PARISC64 RISCV64 LOONGARCH64 M68K SH SHEB"
    ).split()
)


def compile_filter(profile: "dict[str, Any] | None", root: str) -> bytes:
    """Returns the filter as struct sock_filter[], from the cache if it is there.

    Arguments: profile, linux.seccomp; root, the directory of all state. None or a profile without effect gives b"".
    Raises ConfigError for a value that is wrong or not served, KrunError if libseccomp is missing or refuses.
    """
    if not profile or not profile.get("defaultAction"):
        return b""
    if profile["defaultAction"] == "SCMP_ACT_ALLOW" and not profile.get("syscalls"):
        return b""
    path = f"{root}/.seccomp-{_hash(profile)}"
    found = _read(path)
    if found:
        return found
    check(profile)
    code = _compile(profile)
    _write(root, path, code)
    return code


def notifies(profile: "dict[str, Any]") -> bool:
    """Tells whether an agent is asked about some call (SCMP_ACT_NOTIFY)."""
    return any(rule.get("action") == "SCMP_ACT_NOTIFY" for rule in profile.get("syscalls") or ())


def _hash(profile: "dict[str, Any]") -> str:
    data = (_FORMAT + dumps(profile)).encode()
    try:
        from _blake2 import blake2b  # hashlib itself takes 3 ms
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=20).hexdigest()


def _read(path: str) -> bytes:
    """Returns the cached filter; b"" if another user could write the file and thereby weaken the filter."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        info = os.fstat(fd)
        if (
            not S_ISREG(info.st_mode)
            or info.st_uid != os.geteuid()
            or info.st_mode & 0o077
            or info.st_size % 8
        ):
            return b""
        return os.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _write(root: str, path: str, code: bytes) -> None:
    """Keeps the filter; a failure costs time only."""
    try:
        os.makedirs(root, 0o700, exist_ok=True)
        replace_file(path, code)
    except OSError:
        pass


def check(profile: "dict[str, Any]") -> None:
    """Checks what the walk along FIELDS leaves out. Raises ConfigError with the pointer."""
    for index, flag in enumerate(profile.get("flags") or ()):
        if flag not in SECCOMP_FLAGS:
            raise ConfigError(f"{_AT}/flags/{index}", f'unknown seccomp flag "{flag}"')
    for index, name in enumerate(profile.get("architectures") or ()):
        if name not in ARCHITECTURES:
            raise ConfigError(f"{_AT}/architectures/{index}", f'unknown architecture "{name}"')
    if profile.get("listenerMetadata") and not profile.get("listenerPath"):
        raise ConfigError(f"{_AT}/listenerMetadata", "seccomp.listenerMetadata is set without listenerPath")
    if profile["defaultAction"] == "SCMP_ACT_NOTIFY":
        raise ConfigError(f"{_AT}/defaultAction", "SCMP_ACT_NOTIFY cannot be used as default action")
    for index, rule in enumerate(profile.get("syscalls") or ()):
        at = f"{_AT}/syscalls/{index}"
        if type(rule) is not dict:
            raise ConfigError(at, "want an object")
        names = rule.get("names")
        if type(names) is not list or not names or not all(type(name) is str for name in names):
            raise ConfigError(f"{at}/names", "want at least one name")
        action = rule.get("action")
        if action not in SECCOMP_ACTIONS:
            raise ConfigError(f"{at}/action", f'unknown action "{action}"')
        if action == "SCMP_ACT_NOTIFY" and "write" in names:
            raise ConfigError(f"{at}/action", "SCMP_ACT_NOTIFY cannot be used for the write syscall")
        if action == "SCMP_ACT_NOTIFY" and not profile.get("listenerPath"):
            raise ConfigError(f"{at}/action", "SCMP_ACT_NOTIFY: listenerPath is not set")
        _check_errno(rule.get("errnoRet"), action, f"{at}/errnoRet")
        for number, arg in enumerate(rule.get("args") or ()):
            if type(arg) is not dict or arg.get("op") not in SECCOMP_OPERATORS:
                raise ConfigError(f"{at}/args/{number}/op", "unknown operator")
            if type(arg.get("index") or 0) is not int or not 0 <= (arg.get("index") or 0) <= 5:
                raise ConfigError(f"{at}/args/{number}/index", "is not within 0 to 5")
            for key in ("value", "valueTwo"):
                value = arg.get(key) or 0
                if type(value) is not int or not 0 <= value < 1 << 64:
                    raise ConfigError(f"{at}/args/{number}/{key}", f"{value} is out of range")
    _check_errno(profile.get("defaultErrnoRet"), profile["defaultAction"], f"{_AT}/defaultErrnoRet")


def _check_errno(number: "Any", action: str, at: str) -> None:
    if number is None:
        return
    if action not in ("SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"):
        raise ConfigError(at, f"action {action} has no errno")
    if type(number) is not int or not 0 <= number <= 4095:
        raise ConfigError(at, f"{number} is no errno")


def _compile(profile: "dict[str, Any]") -> bytes:
    """Compiles for x86-64 alone: all calls of a payload are of that kind, whatever `architectures` adds."""
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError) as e:
        raise KrunError(
            f"compile seccomp profile: {e}; install libseccomp and the Python package pyseccomp"
        ) from None

    operators = {name: getattr(seccomp, name.removeprefix("SCMP_CMP_")) for name in SECCOMP_OPERATORS}

    def action_of(name: str, number: "int | None") -> int:
        if name == "SCMP_ACT_ERRNO":
            return int(seccomp.ERRNO(_EPERM if number is None else number))
        if name == "SCMP_ACT_TRACE":
            return int(seccomp.TRACE(_EPERM if number is None else number))
        return int(getattr(seccomp, name.removeprefix("SCMP_ACT_")))

    default = action_of(profile["defaultAction"], profile.get("defaultErrnoRet"))
    highest = -1
    try:
        compiled = seccomp.SyscallFilter(default)
        try:
            compiled.set_attr(8, 2)  # SCMP_FLTATR_CTL_OPTIMIZE: a binary tree instead of a chain
        except (OSError, ValueError):
            pass  # libseccomp before 2.5
        for rule in profile.get("syscalls") or ():
            action = action_of(rule["action"], rule.get("errnoRet"))
            for name in rule["names"]:
                number = seccomp.resolve_syscall(seccomp.Arch.X86_64, name)
                if number < 0:
                    continue  # not a call of this architecture, or younger than libseccomp: as runc
                highest = max(highest, number)
                if action != default:
                    _add(seccomp, compiled, action, number, rule.get("args") or (), operators)
        code = _export(compiled)
    except OSError as e:
        raise KrunError(f"compile seccomp profile: {os.strerror(e.errno or 0).lower()}") from None
    return _enosys(profile, highest) + code


def _add(
    seccomp: "Any", compiled: "Any", action: int, number: int, args: "Any", operators: "dict[str, int]"
) -> None:
    """Adds one rule. Conditions on one argument twice are alternatives: libseccomp takes an argument once a rule."""
    conditions = [
        seccomp.Arg(
            arg.get("index") or 0, operators[arg["op"]], arg.get("value") or 0, arg.get("valueTwo") or 0
        )
        for arg in args
    ]
    indexes = [arg.get("index") or 0 for arg in args]
    if len(set(indexes)) == len(indexes):
        compiled.add_rule(action, number, *conditions)
    else:
        for condition in conditions:
            compiled.add_rule(action, number, condition)


def _export(compiled: "Any") -> bytes:
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    with os.fdopen(fd, "w+b") as file:
        compiled.export_bpf(file)
        file.seek(0)
        return file.read()


def _insn(code: int, jt: int, jf: int, k: int) -> bytes:
    return code.to_bytes(2, "little") + bytes((jt, jf)) + k.to_bytes(4, "little")


def _enosys(profile: "dict[str, Any]", highest: int) -> bytes:
    """Instructions before the filter: calls younger than any the profile names fail with ENOSYS, not EPERM.

    Programs take ENOSYS for "try the older call" and EPERM for a refusal; a profile cannot mean calls that its author
    did not know (runc does the same, libcontainer/seccomp/patchbpf). Not for profiles that allow, or kill, by default.
    """
    if profile["defaultAction"] not in ("SCMP_ACT_ERRNO",) or highest < 0:
        return b""
    if profile.get("defaultErrnoRet") == _ENOSYS:
        return b""
    return (
        _insn(0x20, 0, 0, 0)  # ld [nr]
        + _insn(0x25, 0, 2, highest)  # jgt highest, else to the filter
        + _insn(0x35, 1, 0, 0x40000000)  # x32 calls are the filter's
        + _insn(0x06, 0, 0, 0x00050000 | _ENOSYS)  # ret ERRNO(ENOSYS)
    )
