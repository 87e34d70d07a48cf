"""In-tree build backend (PEP 517, PEP 660): builds the native parts in place, then calls setuptools.

pyproject.toml: `build-backend = "krun.native._backend"`, `backend-path = ["."]`, requires setuptools and cffi. The
compiled files are package data, and the wheel is marked as platform-specific.
"""

import os
from typing import Any

from setuptools import build_meta
from setuptools.dist import Distribution

from krun.cli import version
from krun.native import build_native

prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
build_sdist = build_meta.build_sdist


def _build_native() -> None:
    build_native.build()
    with open(version.COMMIT, "w") as file:
        file.write(version.commit(os.path.dirname(version.PACKAGE)))
    # setuptools sees no Extension, yet the package holds machine code.
    Distribution.has_ext_modules = lambda self: True  # type: ignore[method-assign]


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the native parts, then the wheel (PEP 517). Returns the wheel's name."""
    _build_native()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the native parts in place, then the editable wheel (PEP 660). Returns the wheel's name."""
    _build_native()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
