"""Checkpoints that survive: durable, verified, fast. For what torch.save takes.

    import cairn

    cairn.save({"model": model.state_dict(), "step": 10}, "ckpt/step10.pt")
    state = cairn.load("ckpt/step10.pt")          # every byte is verified

    saver = cairn.Saver("ckpt", keep=3)           # saves while training goes on
    saver.save_async({"model": model.state_dict(), "step": 20}, step=20)
    saver.wait()

Files are ordinary ``.pt`` files, which torch.load opens. Places are paths, or URIs of stores
("s3://bucket/run/ep1.pt"). Nothing that a file names is run when it is loaded.

PyTorch and numpy are optional: without them, trees may hold everything except tensors and arrays.
``python3 -m cairn`` is the command line tool. Other threads run during each call. Python sees
Ctrl-C when the call returns.
"""
from ._checkpoints import find_latest, load, remove, save
from ._classes import Placeholder
from ._errors import (AlreadyExistsError, BusyError, CancelledError, CheckpointWarning,
                      CorruptError, Error, MismatchError, NotFoundError, OutOfMemoryError,
                      StorageError, TrainingError, UnreadableError, UnsupportedError, UsageError)
from ._library import VERSION as __version__
from ._saver import Saver
from ._tool import convert, copy, ls, prune, verify

__all__ = [
    "AlreadyExistsError", "BusyError", "CancelledError", "CheckpointWarning", "CorruptError",
    "Error", "MismatchError", "NotFoundError", "OutOfMemoryError", "Placeholder", "Saver",
    "StorageError", "TrainingError", "UnreadableError", "UnsupportedError", "UsageError",
    "__version__", "convert", "copy", "find_latest", "load", "ls", "prune", "remove", "save",
    "verify"]
