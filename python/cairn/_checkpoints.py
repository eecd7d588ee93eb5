"""Saving, loading and finding checkpoints."""
from __future__ import annotations

import os
import warnings
from ctypes import byref, c_int, c_void_p
from typing import Any, Iterable, Union

from . import _decode, _encode, _errors, _library
from ._library import call, taken_text, text

Place = Union[str, "os.PathLike[str]"]


def warn_of_skipped(lines: c_void_p) -> None:
    """Warns of each checkpoint that a search passed over."""
    for line in (taken_text(lines) or "").splitlines():
        warnings.warn(f"passed over a checkpoint: {line}", _errors.CheckpointWarning, stacklevel=3)


def save(obj: Any, place: Place, *, overwrite: bool = True, allow: Iterable[type] = ()) -> None:
    """Saves what torch.save takes, and returns when it would survive a power cut.

    The file is an ordinary ``.pt``, which torch.load opens, with a checksum for each part. It is
    there whole or not at all: after an error, or a crash at any moment, the previous file of that
    name is still there.

    :param obj: a state dict, or any tree of dicts, lists, tuples, tensors, numpy arrays and
        scalars, datetimes and Python's own values. The tensors are read where they are.
    :param place: a path, or a URI of a store ("s3://bucket/ep1.pt"). Missing folders are made. The
        extension selects a compression: ".pt.zst", ".pt.gz", ".tar" and others.
    :param overwrite: if false and the place exists, raises AlreadyExistsError and changes nothing.
    :param allow: classes whose objects may be saved, too, such as enums: ``allow=[Phase]``. Objects
        of other classes raise UnsupportedError, which names the class and where it is.
    """
    tree, owners = _encode.encode(obj, allow, _encode.Pinned())
    flags = 0 if overwrite else _library.NO_OVERWRITE
    tree.warn_of_lost_attributes(str(place))
    call("cairn_save", tree.pointer, text(place, "place"), flags)
    del owners  # the memory that the tree refers to


def load(place: Place, *, map_location: Any = None, mmap: bool = False,
         allow: Iterable[type] = (), verify: bool = True) -> Any:
    """Loads a checkpoint of any format, and returns what torch.load would.

    Reads files of torch.save, safetensors, folders of torch.distributed.checkpoint, compressed and
    packed ones and more. Nothing that the file names is imported or run: objects of classes that
    are neither Python's plain data nor in ``allow`` become placeholders (``cairn.Placeholder``).

    :param place: a path, or a URI of a store.
    :param map_location: where tensors go, as in torch.load.
    :param mmap: map a local file instead of reading it. Changes of the tensors go to memory, not to
        the file.
    :param allow: classes whose objects are made again, as they were saved with ``allow``. Their
        ``__new__``, ``__init__`` or ``__setstate__`` runs.
    :param verify: check every byte, in the same pass that reads it. Damage raises CorruptError.
    """
    tree = _library.Tree()
    flags = 0 if verify else _library.UNVERIFIED
    call("cairn_load", text(place, "place"), flags, byref(tree.pointer))
    return _decode.decode(tree, str(place), map_location, mmap, allow)


def find_latest(place: Place, *, filename: str | None = None) -> str | None:
    """The newest good checkpoint in a folder: its path, or None if there is none.

    "Newest" is by the position in training that the checkpoint holds. Every byte of the answer is
    verified. Damaged checkpoints are passed over, with a CheckpointWarning each.

    :param place: a folder, or a URI of one.
    :param filename: the format of the names to look for, such as "step{batch}.pt". By default all
        names that cairn gives, and if there is none, all other checkpoints.
    """
    path, skipped = c_void_p(), c_void_p()
    call("cairn_find_latest", text(place, "place"),
         None if filename is None else text(filename, "filename"), byref(path), byref(skipped))
    warn_of_skipped(skipped)
    return taken_text(path)


def remove(place: Place) -> bool:
    """Removes a file, or an object of a store. Returns whether there was one."""
    removed = c_int()
    call("cairn_remove", text(place, "place"), byref(removed))
    return bool(removed.value)
