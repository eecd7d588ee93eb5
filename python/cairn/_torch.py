"""What differs between versions of PyTorch, and what to do without it.

PyTorch is used if the program has imported it, or if a tree needs it; cairn never needs it itself.
"""
from __future__ import annotations

import contextlib
import sys
from typing import Any

# The dtypes that have a class of storages, by the class's name. Others (uint16, float8_e4m3fn) are
# saved with untyped storages.
STORAGE_DTYPES: dict[str, str] = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
    "QInt8Storage": "qint8", "QUInt8Storage": "quint8", "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4"}


def imported() -> Any:
    """The module torch if the program uses it, else None: then a tree has no tensors."""
    return sys.modules.get("torch")


def find() -> Any:
    """The module torch, or None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def find_numpy() -> Any:
    """The module numpy, or None if it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def has_names(tensor: Any) -> bool:
    """Whether the tensor's dimensions have names, which no tensor has in newer versions."""
    return hasattr(tensor, "has_names") and tensor.has_names()


def untyped_storage(tensor: Any) -> Any:
    """The storage of a tensor."""
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor._storage()  # before PyTorch 2.0


def untyped(storage: Any) -> Any:
    """The untyped storage in a typed or untyped one."""
    for name in ("_untyped_storage", "_storage"):
        if hasattr(storage, name):
            return getattr(storage, name)
    return storage


def typed(torch: Any, storage: Any, dtype: Any) -> Any:
    """A typed storage around an untyped one."""
    try:
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
    except TypeError:  # before PyTorch 2.0
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype)


def bytes_of(torch: Any, storage: Any) -> Any:
    """A storage's bytes as a tensor on its device."""
    empty = torch.empty(0, dtype=torch.uint8, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


def location_of(torch: Any, storage: Any) -> str:
    """The device's name in a checkpoint: "cpu", "cuda:0"."""
    if storage.device.type == "cpu":
        return "cpu"
    return torch.serialization.location_tag(storage)


def problem_of_sparse_tensors(torch: Any) -> str:
    """Checks the sparse tensors that PyTorch rebuilt since the last call. "": they are good."""
    validate = getattr(getattr(torch, "_utils", None), "_validate_loaded_sparse_tensors", None)
    if validate is None:
        return ""
    checks = getattr(torch.sparse, "check_sparse_tensor_invariants", contextlib.nullcontext)
    try:
        with checks():  # newer versions check nothing without it
            validate()  # forgets them, too
    except NotImplementedError:  # a layout that PyTorch does not check
        return ""
    except RuntimeError as e:
        return str(e)
    return ""


def restore(torch: Any, storage: Any, location: str, map_location: Any) -> Any:
    """The storage on the device that torch.load would choose."""
    restored = None
    if callable(map_location):
        restored = map_location(storage, location)
    elif isinstance(map_location, dict):
        location = map_location.get(location, location)
    elif map_location is not None:
        location = str(map_location)
    if restored is None:
        if location == "cpu":
            return storage
        restored = torch.serialization.default_restore_location(storage, location)
    return untyped(restored)
