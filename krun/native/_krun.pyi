"""The compiled module as mypy sees it; what it declares is in krun/native/cdef."""

from typing import Any

ffi: Any
lib: Any
