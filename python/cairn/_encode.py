"""From Python's objects to a tree of the library.

The pickle is the one that torch.save makes: Python's own pickler writes it, and the memory of the
tensors crosses by its address. Objects of unknown classes are refused before any code of theirs
runs.
"""
from __future__ import annotations

import codecs
import collections
import ctypes
import datetime
import enum
import io
import pickle
import sys
import types
from typing import Any, Callable, Iterable

from . import _classes, _errors, _torch
from ._library import Bytes, Tree, call, texts

_PROTOCOL = 4  # bytes have an opcode of their own

# Objects of these are only data. The library knows what each of them means.
_PLAIN = (collections.OrderedDict, collections.Counter, collections.defaultdict,
          datetime.date, datetime.time, datetime.timedelta, datetime.timezone, complex, bytearray)
# References to these are names. The library decides which names it takes.
_NAMES = (type, types.FunctionType, types.BuiltinFunctionType)


class _Stored:
    """A storage in the pickle, as a persistent id."""

    __slots__ = ("id",)

    def __init__(self, persistent_id: tuple) -> None:
        self.id = persistent_id


class Pinned:
    """Memory for the bytes of a device, which later saves use again."""

    def __init__(self) -> None:
        self._memory: Any = None

    def take(self, torch: Any, size: int) -> Any:
        """A tensor of so many bytes. Its content is valid until the next call."""
        if self._memory is None or self._memory.numel() < size:
            self._memory = None  # freed first
            self._memory = torch.empty(size, dtype=torch.uint8,
                                       pin_memory=torch.cuda.is_available())
        return self._memory[:size]


class _Storages:
    """The storages of a tree, each once."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._keys: dict[int, int] = {}
        self._dtypes: list[Any] = []
        self._storages: list[Any] = []
        self._known: dict[tuple[int, Any], tuple] = {}
        self._classes = {getattr(torch, dtype): getattr(torch, name)
                         for name, dtype in _torch.STORAGE_DTYPES.items() if hasattr(torch, dtype)}
        self._sizes = {None: 1}  # of elements, by dtype

    def has_class(self, dtype: Any) -> bool:
        """Whether storages of the dtype have a class."""
        return dtype in self._classes

    def persistent_id(self, storage: Any, dtype: Any) -> tuple:
        """The id of an untyped storage with elements of `dtype`; None: of bytes."""
        address = storage._cdata
        known = self._known.get((address, dtype))
        if known is not None:
            return known
        key = self._keys.setdefault(address, len(self._storages))
        if key == len(self._storages):
            self._storages.append(storage)
            self._dtypes.append(dtype)
        if self._dtypes[key] != dtype and storage.nbytes() > 0:
            raise _errors.UnsupportedError(
                "two tensors share a storage and have different dtypes "
                f"({self._dtypes[key]} and {dtype}), which a file of PyTorch cannot hold; "
                "clone() one of them")
        if dtype not in self._sizes:
            self._sizes[dtype] = self._torch._utils._element_size(dtype)
        kind = self._torch.UntypedStorage if dtype is None else self._classes[dtype]
        made = ("storage", kind, str(key), _torch.location_of(self._torch, storage),
                storage.nbytes() // self._sizes[dtype])
        self._known[address, dtype] = made
        return made

    def places(self, pinned: Pinned) -> tuple[Any, list[Any]]:
        """The storages' memory for the library, and its owners."""
        array = (Bytes * max(len(self._storages), 1))()
        owners = list(self._storages)
        elsewhere = []
        for i, storage in enumerate(self._storages):
            size = storage.nbytes()
            if storage.device.type == "cpu":
                array[i] = Bytes(storage.data_ptr() if size else None, size)
            elif size:
                elsewhere.append((i, storage))
        if elsewhere:
            owners.append(self._stage(elsewhere, pinned, array))
        return array, owners

    def _stage(self, elsewhere: list, pinned: Pinned, array: Any) -> Any:
        """Copies what is on devices into host memory, with one wait at the end."""
        torch, align = self._torch, 64
        sizes = [-(-storage.nbytes() // align) * align for _, storage in elsewhere]
        memory = pinned.take(torch, sum(sizes))
        at = 0
        for (i, storage), size in zip(elsewhere, sizes):
            place = memory[at:at + storage.nbytes()]
            # Other devices have no wait that is the same everywhere.
            place.copy_(_torch.bytes_of(torch, storage),
                        non_blocking=storage.device.type == "cuda")
            array[i] = Bytes(place.data_ptr(), storage.nbytes())
            at += size
        for device in {storage.device for _, storage in elsewhere if storage.device.type == "cuda"}:
            torch.cuda.current_stream(device).synchronize()
        return memory

    def __len__(self) -> int:
        return len(self._storages)


class _Pickler(pickle.Pickler):
    """Python's pickler with a closed list of classes."""

    def __init__(self, file: Any, allowed: dict, torch: Any) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self.storages = _Storages(torch) if torch else None
        self._torch = torch
        self._allowed = set(allowed.values())
        self._reducers: dict[type, Callable] = {memoryview: _array_of_memory}
        for kind in (*_PLAIN, *_NAMES, datetime.datetime):
            self._reducers[kind] = _by_itself
        numpy = sys.modules.get("numpy")
        if numpy:
            self._reducers[numpy.ndarray] = _array
        self._storage_types: frozenset = frozenset([_Stored])
        if torch:
            self._reducers[torch.Tensor] = self._tensor
            self._reducers[torch.nn.Parameter] = self._parameter
            self._storage_types |= {torch.storage.TypedStorage, torch.UntypedStorage}
        # The last object that was looked at, and the last one that is no class or function.
        self.last: Any = None
        self.last_object: Any = None

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) not in self._storage_types:
            return None
        if type(obj) is _Stored:
            return obj.id
        dtype = None if type(obj) is self._torch.UntypedStorage else obj.dtype
        return self.storages.persistent_id(_torch.untyped(obj), dtype)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        reduce = self._reducers.get(kind)
        if reduce is None:
            reduce = self._reducers[kind] = self._reducer_of(kind, obj)
        self.last = obj
        if not isinstance(obj, _NAMES):
            self.last_object = obj
        return reduce(obj)

    def _reducer_of(self, kind: type, obj: Any) -> Callable:
        module = kind.__module__.partition(".")[0]
        numpy = sys.modules.get("numpy")
        if numpy and issubclass(kind, (numpy.dtype, numpy.generic)):
            return _dtype if issubclass(kind, numpy.dtype) else _scalar
        if kind in self._allowed and not (self._torch and issubclass(kind, self._torch.Tensor)):
            return _enum if issubclass(kind, enum.Enum) else _by_itself
        if issubclass(kind, type) or module in ("torch", "numpy") and not self._is_module(kind):
            return _by_itself
        if self._torch and issubclass(kind, self._torch.Tensor):
            return _refuse_subclass
        if kind is _classes.Placeholder or issubclass(kind, _classes.Placeholder):
            return _by_itself
        if hasattr(obj, "__dlpack__"):
            return self._foreign_array
        return self._refuse

    def _is_module(self, kind: type) -> bool:
        return bool(self._torch) and issubclass(
            kind, (self._torch.nn.Module, self._torch.optim.Optimizer))

    def _refuse(self, obj: Any) -> Any:
        raise _errors.UnsupportedError(
            f"an object of the class {_classes.class_name(type(obj))} runs code of its own when "
            "Python loads it; list the class in allow=, or save a plain dict of its content "
            "(its state_dict(), for example)")

    def _tensor(self, tensor: Any) -> Any:
        torch, dtype = self._torch, tensor.dtype
        if tensor.is_nested or _torch.has_names(tensor):
            raise _errors.UnsupportedError(
                "a nested tensor, or one whose dimensions have names; save its parts, or "
                "tensor.rename(None)")
        is_usual = (tensor.layout is torch.strided and tensor.device.type in ("cpu", "cuda")
                    and not tensor.is_quantized and not tensor.__dict__)
        if not is_usual:
            return NotImplemented
        if tensor.is_conj() or tensor.is_neg():  # PyTorch 1.13 does not write that
            requires_grad = tensor.requires_grad
            tensor = tensor.detach().resolve_conj().resolve_neg().requires_grad_(requires_grad)
        if self.storages.has_class(dtype):
            rebuild, more = torch._utils._rebuild_tensor_v2, ()
        else:
            rebuild, more = torch._utils._rebuild_tensor_v3, (dtype,)
        stored = _Stored(self.storages.persistent_id(_torch.untyped_storage(tensor),
                                                     None if more else dtype))
        return rebuild, (stored, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(),
                         tensor.requires_grad, None, *more)

    def _parameter(self, parameter: Any) -> Any:
        if parameter.__dict__:
            return NotImplemented
        return self._torch._utils._rebuild_parameter, (parameter.data, parameter.requires_grad,
                                                       None)

    def _foreign_array(self, obj: Any) -> Any:
        if self._torch:
            return self._tensor(self._torch.from_dlpack(obj))
        numpy = _torch.find_numpy()
        if numpy is None:
            return self._refuse(obj)
        return numpy.from_dlpack(obj).__reduce_ex__(_PROTOCOL)


def _by_itself(obj: Any) -> Any:
    return NotImplemented


def _refuse_subclass(tensor: Any) -> Any:
    raise _errors.UnsupportedError(
        f"a tensor of the class {_classes.class_name(type(tensor))}; save "
        "tensor.as_subclass(torch.Tensor), and make it again after loading")


def _check_dtype(dtype: Any, what: str) -> None:
    if dtype.kind not in "biufc" or dtype.itemsize > 16:
        raise _errors.UnsupportedError(
            f"{what} of {dtype}; only numbers of numpy can be saved, up to complex128: save what "
            "tolist() gives instead")


def _array(array: Any) -> Any:
    _check_dtype(array.dtype, "a numpy array")
    return NotImplemented


def _scalar(scalar: Any) -> Any:
    _check_dtype(scalar.dtype, "a numpy scalar")
    return NotImplemented


def _dtype(dtype: Any) -> Any:
    _check_dtype(dtype, "a numpy dtype")
    return NotImplemented


def _enum(obj: Any) -> Any:
    return type(obj), (obj.value,)


def _array_of_memory(memory: memoryview) -> Any:
    """A memoryview as a numpy array, or as bytes."""
    numpy = _torch.find_numpy()
    if numpy is None:
        return codecs.encode, (memory.tobytes().decode("latin1"), "latin1")
    array = numpy.asarray(memory)
    _array(array)
    return array.__reduce_ex__(_PROTOCOL)


def _children(obj: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(obj, dict):
        return [(str(key), value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(i), value) for i, value in enumerate(obj)]
    if isinstance(obj, (enum.Enum, *_NAMES)):
        return []
    return list(getattr(obj, "__dict__", {}).items())


def path_in(root: Any, wanted: Any) -> str:
    """Where `wanted` is in the tree: "state/optimizer". Empty if it is the tree, or not found."""
    seen = set()
    waiting = [("", root)]
    while waiting:
        path, obj = waiting.pop()
        if obj is wanted:
            return path
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        waiting.extend((f"{path}/{key}" if path else key, child) for key, child in _children(obj))
    return ""


def _where(root: Any, pickler: _Pickler) -> str:
    """ "state/optimizer: ", where the pickler stopped. Empty if that is the tree itself."""
    path = path_in(root, pickler.last) or path_in(root, pickler.last_object)
    return f"{path}: " if path else ""


def encode(obj: Any, allow: Iterable[type], pinned: Pinned) -> tuple[Tree, Any]:
    """The tree of an object, and what must live as long as the tree is used."""
    allowed = _classes.allowed_classes(allow)
    file = io.BytesIO()
    pickler = _Pickler(file, allowed, _torch.imported())
    try:
        pickler.dump(obj)
    except _errors.Error as e:
        raise type(e)(_where(obj, pickler) + str(e)) from e.__cause__
    except MemoryError as e:
        raise _errors.OutOfMemoryError("there is not enough memory for the pickle") from e
    except RecursionError as e:
        raise _errors.UnsupportedError("the value is nested too deep for Python to pickle") from e
    except Exception as e:
        raise _errors.UnsupportedError(
            f"{_where(obj, pickler)}Python cannot pickle it: {e}; leave it out, or save a plain "
            "dict of its content") from e
    if pickler.storages is None:
        array, owners, count = (Bytes * 1)(), [], 0
    else:
        array, owners = pickler.storages.places(pinned)
        count = len(pickler.storages)
    text = file.getbuffer()
    data = (ctypes.c_char * len(text)).from_buffer(text)
    tree = Tree()
    call("cairn_tree_from_pickle", Bytes(ctypes.addressof(data), len(text)), array, count,
         ctypes.byref(tree.pointer))
    names = [_classes.class_name(kind) for kind in allowed.values()]
    call("cairn_tree_check_classes", tree.pointer, texts(names, "a class"), len(names))
    return tree, owners
