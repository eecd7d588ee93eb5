"""From a tree of the library to Python's objects.

The library has read the checkpoint, whatever its format, and gives it as a pickle that holds only
what it knows, and the names of all else. This unpickler resolves names by a closed list: nothing is
imported or called because a file names it. Objects of other classes become placeholders.
"""
from __future__ import annotations

import codecs
import collections
import ctypes
import datetime
import enum
import io
import pickle
import re
from typing import Any, Callable

from . import _classes, _errors, _torch
from ._library import Tree, call

# numpy's codes for numbers, as the library writes them.
_NUMBER = re.compile(r"[biufc]\d{1,2}")


def _encode(text: str, encoding: str) -> bytes:
    """_codecs.encode, by which protocol 2 writes bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return codecs.encode(text, "latin1")


# Types that a file may name as the factory of a defaultdict. A file can call none of them: a call
# with arguments of its own could take any memory.
_FACTORIES: dict[str, type] = {
    "list": list, "dict": dict, "set": set, "tuple": tuple, "int": int, "long": int,
    "float": float, "bool": bool, "str": str, "unicode": str}


def _defaultdict(factory: Any = None) -> Any:
    """collections.defaultdict, as the library writes it: without content."""
    if isinstance(factory, type) and issubclass(factory, _classes.Placeholder):
        is_python = factory.__module__ == "builtins"
        factory = _FACTORIES.get(factory.__qualname__, factory) if is_python else factory
    return collections.defaultdict(factory)


def _containers(most: int) -> dict[tuple[str, str], Any]:
    """Containers that are made from another one. All together get at most so many items: a file of
    so many bytes has no more, but can name the same ones again and again."""
    left = [most]

    def limited(kind: Any) -> Callable:
        def make(items: Any = ()) -> Any:
            left[0] -= len(items)
            if left[0] < 0:
                raise _errors.CorruptError("its objects show far more items than it holds")
            return kind(items)
        return make

    return {("builtins", "set"): limited(set), ("builtins", "frozenset"): limited(frozenset),
            ("builtins", "bytearray"): limited(bytearray),
            ("collections", "OrderedDict"): limited(collections.OrderedDict),
            ("collections", "Counter"): limited(collections.Counter)}


_PYTHON: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _encode,
    ("builtins", "complex"): complex,
    ("collections", "defaultdict"): _defaultdict,
    ("datetime", "timedelta"): datetime.timedelta, ("datetime", "timezone"): datetime.timezone,
    ("datetime", "datetime"): datetime.datetime, ("datetime", "date"): datetime.date,
    ("datetime", "time"): datetime.time,
}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class _TorchStorages:
    """The storages as PyTorch's, in memory that PyTorch allocates or in a private mapping."""

    def __init__(self, torch: Any, tree: Tree, map_location: Any, mmap: bool) -> None:
        self._torch = torch
        self._map_location = map_location
        self._restored: dict[str, Any] = {}
        self._typed: dict[tuple[str, Any], Any] = {}
        if mmap:
            call("cairn_tree_map", tree.pointer)
            self._storages = [self._around(tree, address, size)
                              for address, size in tree.storages()]
        else:
            self._storages = [torch.UntypedStorage(size) for _, size in tree.storages()]
            tree.read([storage.data_ptr() if storage.nbytes() else 0
                       for storage in self._storages])

    def _around(self, tree: Tree, address: int | None, size: int) -> Any:
        if not size:
            return self._torch.UntypedStorage(0)
        memory = (ctypes.c_char * size).from_address(address)
        memory.tree = tree  # the storage keeps `memory` alive
        return _torch.untyped_storage(self._torch.frombuffer(memory, dtype=self._torch.uint8))

    def get(self, kind: Any, key: str, location: str) -> Any:
        """The storage of a persistent id."""
        storage = self._restored.get(key)
        if storage is None:
            storage = _torch.restore(self._torch, self._storages[int(key)], location,
                                     self._map_location)
            self._restored[key] = storage
        if kind.__name__ == "UntypedStorage":
            return storage
        dtype = getattr(self._torch, _torch.STORAGE_DTYPES[kind.__name__])
        found = self._typed.get((key, dtype))
        if found is None:
            found = self._typed[key, dtype] = _torch.typed(self._torch, storage, dtype)
        return found


def _torch_tensor(torch: Any) -> tuple[Callable, Callable]:
    """_rebuild_tensor_v2 and _rebuild_tensor_v3, for storages of _TorchStorages."""
    def of_typed(storage: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool,
                 hooks: Any, metadata: Any = None) -> Any:
        return of_bytes(storage, offset, size, stride, requires_grad, hooks, storage.dtype)

    def of_bytes(storage: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool,
                 hooks: Any, dtype: Any, metadata: Any = None) -> Any:
        storage = _torch.untyped(storage)
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
        tensor.set_(storage, offset, size, stride)
        if requires_grad:
            tensor.requires_grad_()
        return tensor

    return of_typed, of_bytes


class _NumpyStorages:
    """The storages as numpy's arrays of bytes: for trees with tensors where PyTorch is missing."""

    def __init__(self, numpy: Any, tree: Tree) -> None:
        self._arrays = [numpy.empty(size, dtype="u1") for _, size in tree.storages()]
        tree.read([array.ctypes.data if array.size else 0 for array in self._arrays])

    def get(self, kind: Any, key: str, location: str) -> Any:
        """The storage of a persistent id, and the name of its dtype. None: of bytes."""
        is_untyped = kind.__name__ == "UntypedStorage"
        return (self._arrays[int(key)],
                None if is_untyped else _torch.STORAGE_DTYPES[kind.__name__])


def _numpy_tensor(numpy: Any) -> tuple[Callable, Callable]:
    """_rebuild_tensor_v2 and _rebuild_tensor_v3, for storages of _NumpyStorages."""
    def of_typed(storage: Any, offset: int, size: tuple, stride: tuple, *rest: Any) -> Any:
        return array_of(storage[0], offset, size, stride, storage[1])

    def of_bytes(storage: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool,
                 hooks: Any, dtype: Any, *rest: Any) -> Any:
        return array_of(storage[0], offset, size, stride, dtype.__name__)

    def array_of(memory: Any, offset: int, size: tuple, stride: tuple, dtype: str | None) -> Any:
        try:
            if dtype is None:
                raise TypeError("no dtype")
            kind = numpy.dtype(dtype)
        except TypeError:
            raise _errors.UnsupportedError(
                f"numpy has no dtype {dtype}; install PyTorch, or convert the checkpoint "
                "(cairn.convert(..., dtype='float32'))") from None
        steps = tuple(step * kind.itemsize for step in stride)
        if 0 in size:
            return numpy.empty(size, kind)
        return numpy.ndarray(size, kind, memory, offset * kind.itemsize, steps)

    return of_typed, of_bytes


class _Unpickler(pickle.Unpickler):
    """Python's unpickler with a closed list of names."""

    def __init__(self, text: bytes, storages: Any, known: dict, allowed: dict) -> None:
        super().__init__(io.BytesIO(text))
        self._storages = storages
        self._known = known
        self._allowed = allowed

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, location, _ = pid
        return self._storages.get(kind, key, location)

    def find_class(self, module: str, name: str) -> Any:
        module = _OLD_MODULES.get(module, module)
        found = self._known.get((module, name))
        if found is None:
            found = self._known[module, name] = self._resolve(module, name)
        return found

    def _resolve(self, module: str, name: str) -> Any:
        if (module, name) in self._allowed:
            return self._allowed[module, name]
        if (module, name) == ("builtins", "getattr"):
            return self._nested
        if (module, name) == ("copyreg", "__newobj_ex__"):
            return self._new_object
        if (module, name) == ("copyreg", "_reconstructor"):
            return self._reconstructed
        return _classes.placeholder_class(module, name)

    def _is_ours(self, kind: Any) -> bool:
        return isinstance(kind, type) and (issubclass(kind, _classes.Placeholder)
                                           or kind in self._allowed.values())

    def _nested(self, outer: Any, name: str) -> Any:
        """getattr(outer, name), by which protocol 2 names a nested class."""
        if not self._is_ours(outer):
            raise pickle.UnpicklingError(f"an attribute {name!r} of {outer!r}")
        return self.find_class(outer.__module__, f"{outer.__qualname__}.{name}")

    def _new_object(self, kind: Any, args: tuple, kwargs: dict) -> Any:
        if not self._is_ours(kind):
            raise pickle.UnpicklingError(f"a new object of {kind!r}")
        return kind.__new__(kind, *args, **kwargs)

    def _reconstructed(self, kind: Any, base: Any, state: Any) -> Any:
        """copyreg._reconstructor, by which protocols 0 and 1 make objects."""
        if not self._is_ours(kind):
            raise pickle.UnpicklingError(f"a new object of {kind!r}")
        if issubclass(kind, _classes.Placeholder):
            return kind(base, state)
        made = object.__new__(kind)
        return made


def _numpy_names(numpy: Any) -> dict[tuple[str, str], Any]:
    """numpy's names. Arrays and scalars of numbers only."""
    def dtype(code: str, align: bool = False, copy: bool = True) -> Any:
        if not _NUMBER.fullmatch(code):
            raise _errors.UnsupportedError(
                f"it holds a numpy array or dtype of {code!r}, and cairn loads only numbers; load "
                "it with torch.load, if you trust it, and save array.tolist() instead")
        return numpy.dtype(code)

    def array(shape: tuple) -> Any:
        if shape != (0,):
            raise pickle.UnpicklingError(f"a numpy array without content, of shape {shape!r}")
        return numpy.ndarray((0,), "i1")

    def reconstruct(kind: Any, shape: tuple, code: bytes) -> Any:
        if kind is not array:
            raise pickle.UnpicklingError(f"a numpy array of {kind!r}")
        return array(shape)

    def scalar(kind: Any, content: bytes) -> Any:
        return numpy.frombuffer(content, kind)[0]

    names: dict[tuple[str, str], Any] = {("numpy", "dtype"): dtype,
                                         ("numpy", "ndarray"): array}
    for inner in ("numpy.core.multiarray", "numpy._core.multiarray"):
        names[inner, "_reconstruct"] = reconstruct
        names[inner, "scalar"] = scalar
    return names


def _torch_names(torch: Any) -> dict[tuple[str, str], Any]:
    """PyTorch's names: what the library writes for tensors, and constants."""
    names: dict[tuple[str, str], Any] = {}
    kinds = (torch.dtype, torch.memory_format, torch.qscheme)
    for name in dir(torch):
        if isinstance(getattr(torch, name, None), kinds):
            names["torch", name] = getattr(torch, name)
    names["torch", "Size"] = torch.Size
    names["torch", "device"] = torch.device
    names["torch.serialization", "_get_layout"] = torch.serialization._get_layout
    for name in ("_rebuild_parameter", "_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor",
                 "_rebuild_qtensor"):
        if hasattr(torch._utils, name):
            names["torch._utils", name] = getattr(torch._utils, name)
    of_typed, of_bytes = _torch_tensor(torch)
    names["torch._utils", "_rebuild_tensor_v2"] = of_typed
    names["torch._utils", "_rebuild_tensor_v3"] = of_bytes
    return names


def _names_without_torch(numpy: Any) -> dict[tuple[str, str], Any]:
    """PyTorch's names for a process without it: tensors become numpy's arrays."""
    names: dict[tuple[str, str], Any] = {("torch", "Size"): tuple}
    of_typed, of_bytes = _numpy_tensor(numpy)
    names["torch._utils", "_rebuild_tensor_v2"] = of_typed
    names["torch._utils", "_rebuild_tensor_v3"] = of_bytes
    names["torch._utils", "_rebuild_parameter"] = lambda data, requires_grad, hooks: data
    return names


def decode(tree: Tree, what: str, map_location: Any, mmap: bool, allow: Any) -> Any:
    """The objects of a tree that was loaded. `what` is the checkpoint, for messages."""
    allowed = _classes.allowed_classes(allow)
    text = tree.pickle()
    known = {**_PYTHON, **_containers(len(text))}
    storages: Any = None
    tree.warn_of_lost_attributes(what)
    has_tensors = bool(tree.storages())
    # Names of PyTorch's may occur without a tensor: torch.Size, torch.device, dtypes.
    torch = _torch.find() if has_tensors or b"torch" in text else None
    numpy = _torch.find_numpy()
    if numpy:
        known.update(_numpy_names(numpy))
    try:
        if torch:
            known.update(_torch_names(torch))
            storages = _TorchStorages(torch, tree, map_location, mmap)
        elif has_tensors and numpy:
            known.update(_names_without_torch(numpy))
            storages = _NumpyStorages(numpy, tree)
    except (MemoryError, RuntimeError) as e:  # PyTorch's allocator
        raise _errors.OutOfMemoryError(f"{what}: there is not enough memory: {e}") from e
    if storages is None:
        if has_tensors:
            raise _errors.UnsupportedError(
                f"{what} holds tensors; install PyTorch or numpy to load it")
        tree.read([])
    members = _attributes_of_members(allowed)
    made = _rebuild(_Unpickler(text, storages, known, allowed), what, torch)
    for member, before in members:
        if vars(member) != before:
            vars(member).clear()
            vars(member).update(before)
            raise _errors.CorruptError(f"{what}: it would change {member!r} for the whole program")
    return made


def _attributes_of_members(allowed: dict) -> list[tuple[Any, dict]]:
    """The attributes of the allowed enums' members, which a pickle could set."""
    return [(member, dict(vars(member))) for kind in allowed.values()
            if issubclass(kind, enum.Enum) for member in kind]


def _rebuild(unpickler: _Unpickler, what: str, torch: Any) -> Any:
    try:
        made = unpickler.load()
    except _errors.Error as e:
        raise type(e)(f"{what}: {e}") from e.__cause__
    except MemoryError as e:
        raise _errors.OutOfMemoryError(f"{what}: there is not enough memory") from e
    except Exception as e:
        raise _errors.UnsupportedError(
            f"{what}: Python cannot rebuild an object of it: {type(e).__name__}: {e}") from e
    finally:
        problem = _torch.problem_of_sparse_tensors(torch)
    if problem:
        raise _errors.CorruptError(f"{what}: a sparse tensor is damaged: {problem}")
    return made
