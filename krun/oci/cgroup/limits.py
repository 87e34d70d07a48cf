"""Writes linux.resources in the order of the table of controllers: the common part of cgroup v1 and v2."""

import errno
import os

from krun.errors import KrunError
from krun.oci.cgroup.controllers import given
from krun.oci.cgroup.convert import rdma_line
from krun.oci.cgroup.files import put, read, refused, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from krun.log import Log


def apply(
    version: int,
    resources: "dict[str, Any]",
    find: "Callable[[str, str], str]",
    writers: "dict[str, Callable[[str, Any], None]]",
    log: "Log",
) -> None:
    """Write all values of linux.resources except the device rules.

    Arguments: version, 1 or 2; find, (v1 hierarchy, what) to the directory; writers, name to a function of (directory,
    section). A value that this version refuses is an error before the first write.
    Errors: KrunError for an impossible value, SysError for a write that fails.
    """
    asked = list(given(resources))
    for _, setting, _, _ in asked:
        if setting.refuse[0] == version:
            raise KrunError(setting.refuse[1])
        if setting.ignore[0] == version:
            log.warning(setting.ignore[1])
    done = set()
    for controller, setting, value, section in asked:
        name, convert = (setting.v1, setting.to_v1) if version == 1 else (setting.v2, setting.to_v2)
        if not name:
            continue
        directory = find(controller.tree, controller.what)
        if setting.writer:
            if setting.writer not in done:
                done.add(setting.writer)
                writers[setting.writer](directory, section)
            continue
        for element in value if setting.each else (value,):
            text = convert(element, section)
            if text is not None:
                assert not isinstance(text, bytes), "bytes are for unit properties"
                write(directory, name, text)


def present(version: int, resources: "dict[str, Any]", paths: "dict[str, str]") -> "list[tuple[str, str]]":
    """Return the files that `apply` would write, with their texts: those of one value. Not those of a line for each device, where the
    absence of a line is a value, too.
    """
    found: dict[str, str] = {}
    for controller, setting, _, _ in given(resources):
        name = setting.v1 if version == 1 else setting.v2
        path = f"{paths.get('' if version == 2 else controller.tree)}/{name}"
        if not name or setting.each or path in found:
            continue
        try:
            text = read(path)
        except OSError:
            continue  # apply says what is wrong
        if text and "\n" not in text:
            found[path] = text
    return list(found.items())


def put_back(files: "list[tuple[str, str]]") -> None:
    """Write the texts of `present` again, as far as the kernel takes them. Twice, because values bound one another."""
    for path, text in (*files, *reversed(files)):
        try:
            if read(path) != text:
                put(path, text)
        except OSError:
            pass


def retry(directory: str, values: "Iterable[tuple[str, Any]]") -> None:
    """Write files whose values bound one another: what the kernel refuses as EINVAL is written again after the others.

    Argument: values, (file, value or None). Errors: SysError.
    """
    late = []
    for name, value in values:
        if value is None:
            continue
        try:
            put(f"{directory}/{name}", value)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise refused(f"{directory}/{name}", value, error) from None
            late.append((name, value))
    for name, value in late:
        write(directory, name, value)


def huge_pages(directory: str, pages: "Any", word: str) -> None:
    """Write linux.resources.hugepageLimits; argument: word, last part of the file's name."""
    for page in pages:
        if "/" in page["pageSize"]:
            raise KrunError(f"hugepageLimits: pageSize {page['pageSize']!r} must not have a slash")
        # Reservations first (config-linux.md 1.1): a limit on faults alone kills by SIGBUS.
        reserved = f"hugetlb.{page['pageSize']}.rsvd.{word}"
        if os.path.exists(f"{directory}/{reserved}"):
            write(directory, reserved, page["limit"])
        write(directory, f"hugetlb.{page['pageSize']}.{word}", page["limit"])


def rdma(directory: str, devices: "Any") -> None:
    """Write linux.resources.rdma."""
    for device, limits in devices.items():
        write(directory, "rdma.max", rdma_line(device, limits))
