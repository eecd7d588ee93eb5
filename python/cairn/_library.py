"""The C library (include/cairn/c.h) through ctypes, which releases the GIL in each call."""
from __future__ import annotations

import ctypes
import os
import pathlib
import warnings
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Sequence

from . import _errors

NO_OVERWRITE = 1
UNVERIFIED = 2


class Bytes(ctypes.Structure):
    """cairn_bytes."""

    _fields_ = [("data", c_void_p), ("size", c_uint64)]


class Answer(ctypes.Structure):
    """cairn_answer."""

    _fields_ = [("exit_code", c_int), ("out", c_void_p), ("err", c_void_p)]


class SaverOptions(ctypes.Structure):
    """cairn_saver_options."""

    _fields_ = [("size", c_size_t), ("folder", c_char_p), ("filename", c_char_p),
                ("latest", c_char_p), ("run_name", c_char_p), ("keep", c_int64),
                ("overwrite", c_int)]


def _path() -> pathlib.Path:
    """The library in CAIRN_LIBRARY, or else the one beside this file."""
    given = os.environ.get("CAIRN_LIBRARY")
    return pathlib.Path(given) if given else pathlib.Path(__file__).with_name("libcairn-c.so")


def _load() -> ctypes.CDLL:
    path = _path()
    try:
        return ctypes.CDLL(str(path))
    except OSError as e:
        raise ImportError(f"cairn cannot load its library {path}: {e}; install the package again, "
                          "or set CAIRN_LIBRARY to the path of libcairn-c.so") from e


_LIBRARY = _load()

# The parameters of each function that returns a cairn_status, without the last, the error.
_FUNCTIONS: dict[str, list] = {
    "cairn_tree_from_pickle": [Bytes, POINTER(Bytes), c_size_t, POINTER(c_void_p)],
    "cairn_tree_check_classes": [c_void_p, POINTER(c_char_p), c_size_t],
    "cairn_tree_lost_attributes": [c_void_p, POINTER(c_void_p)],
    "cairn_tree_pickle": [c_void_p, POINTER(Bytes)],
    "cairn_tree_storages": [c_void_p, POINTER(POINTER(Bytes)), POINTER(c_size_t)],
    "cairn_save": [c_void_p, c_char_p, c_uint],
    "cairn_load": [c_char_p, c_uint, POINTER(c_void_p)],
    "cairn_tree_read": [c_void_p, POINTER(c_void_p)],
    "cairn_tree_map": [c_void_p],
    "cairn_find_latest": [c_char_p, c_char_p, POINTER(c_void_p), POINTER(c_void_p)],
    "cairn_saver_new": [POINTER(SaverOptions), POINTER(c_void_p)],
    "cairn_saver_save": [c_void_p, c_void_p, c_char_p, c_int64],
    "cairn_saver_wait": [c_void_p],
    "cairn_saver_resume": [c_void_p, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_void_p)],
    "cairn_tool": [POINTER(c_char_p), c_size_t, POINTER(Answer)],
    "cairn_tool_main": [POINTER(c_char_p), c_size_t, POINTER(c_int)],
    "cairn_remove": [c_char_p, POINTER(c_int)],
}
_OTHERS: dict[str, tuple] = {
    "cairn_version": (c_char_p, []),
    "cairn_error_message": (c_char_p, [c_void_p]),
    "cairn_error_exit_code": (c_int, [c_void_p]),
    "cairn_error_number": (c_int, [c_void_p]),
    "cairn_error_is_retryable": (c_int, [c_void_p]),
    "cairn_error_free": (None, [c_void_p]),
    "cairn_text_free": (None, [c_void_p]),
    "cairn_tree_free": (None, [c_void_p]),
    "cairn_saver_free": (None, [c_void_p]),
}


def _declare() -> None:
    for name, parameters in _FUNCTIONS.items():
        function = getattr(_LIBRARY, name)
        function.restype = c_int
        function.argtypes = [*parameters, POINTER(c_void_p)]
    for name, (result, parameters) in _OTHERS.items():
        function = getattr(_LIBRARY, name)
        function.restype = result
        function.argtypes = parameters


_declare()
VERSION: str = _LIBRARY.cairn_version().decode()


def _error(status: int, handle: c_void_p) -> _errors.Error:
    message = _LIBRARY.cairn_error_message(handle).decode("utf-8", "replace")
    kind = _errors.BY_STATUS[status] if status < len(_errors.BY_STATUS) else _errors.Error
    error = kind(message)
    error.exit_code = _LIBRARY.cairn_error_exit_code(handle)
    if isinstance(error, _errors.StorageError):
        error.number = _LIBRARY.cairn_error_number(handle)
        error.retryable = bool(_LIBRARY.cairn_error_is_retryable(handle))
    _LIBRARY.cairn_error_free(handle)
    return error


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a cairn_status, and raises its error."""
    handle = c_void_p()
    status = getattr(_LIBRARY, name)(*arguments, byref(handle))
    if status:
        raise _error(status, handle)


def taken_text(text: c_void_p | int | None) -> str | None:
    """The text that a function returned, which is freed; None for null."""
    address = text.value if isinstance(text, c_void_p) else text
    if not address:
        return None
    try:
        return os.fsdecode(ctypes.string_at(address))
    finally:
        _LIBRARY.cairn_text_free(address)


def text(given: Any, what: str) -> bytes:
    """A text or a path as a C string. `what` names it in errors."""
    try:
        made = os.fsencode(given)
    except (TypeError, UnicodeError) as e:
        raise _errors.UsageError(f"{what}: {e}") from e
    if b"\0" in made:
        raise _errors.UsageError(f"{what} holds a zero byte: {given!r}")
    return made


def texts(items: Sequence[Any], what: str) -> Any:
    """An array of C strings."""
    return (c_char_p * max(len(items), 1))(*[text(item, what) for item in items])


class Handle:
    """An object of the library, which is freed with this one."""

    _free: str

    def __init__(self) -> None:
        self.pointer = c_void_p()

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        """Frees it now. Does nothing the second time."""
        pointer, self.pointer = self.pointer, c_void_p()
        if pointer.value and _LIBRARY is not None:
            getattr(_LIBRARY, self._free)(pointer)


class Tree(Handle):
    """A cairn_tree."""

    _free = "cairn_tree_free"

    def warn_of_lost_attributes(self, what: str) -> None:
        """Warns of each tensor whose attributes are not kept."""
        lines = c_void_p()
        call("cairn_tree_lost_attributes", self.pointer, byref(lines))
        for line in (taken_text(lines) or "").splitlines():
            warnings.warn(f"{what}: the attributes of a tensor are not kept: {line}",
                          _errors.CheckpointWarning, stacklevel=4)

    def pickle(self) -> bytes:
        """The tree as a pickle of protocol 2."""
        found = Bytes()
        call("cairn_tree_pickle", self.pointer, byref(found))
        return ctypes.string_at(found.data, found.size)

    def storages(self) -> list[tuple[int | None, int]]:
        """The address and the bytes of each storage."""
        found, count = POINTER(Bytes)(), c_size_t()
        call("cairn_tree_storages", self.pointer, byref(found), byref(count))
        return [(found[i].data, found[i].size) for i in range(count.value)]

    def read(self, places: Sequence[int]) -> None:
        """Reads the storages into memory at these addresses."""
        into = (c_void_p * max(len(places), 1))(*places)
        call("cairn_tree_read", self.pointer, into)


class SaverHandle(Handle):
    """A cairn_saver."""

    _free = "cairn_saver_free"

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def is_of_another_process(self) -> bool:
        """Whether this process was forked later. It has not the thread that would be waited for."""
        return os.getpid() != self._process

    def free(self) -> None:
        """As Handle.free()."""
        if not self.is_of_another_process():
            super().free()
