"""Saving in the background."""
from __future__ import annotations

import atexit
import ctypes
import operator
import threading
import warnings
import weakref
from ctypes import byref, c_void_p
from types import TracebackType
from typing import Any, Iterable

from . import _classes, _decode, _encode, _errors, _library
from ._checkpoints import Place, warn_of_skipped
from ._library import call, taken_text, text


# Those that are not closed. A program that ends waits for their saves.
_OPEN: weakref.WeakSet[Saver] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for saver in list(_OPEN):
        saver._close_and_warn()


def _checked_step(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError as e:
        raise _errors.UsageError(f"step is {step!r}; give an int") from e
    if not 0 <= number < 2**63:
        raise _errors.UsageError(f"step is {number}; give a number from 0 to 2**63 - 1")
    return number


class Saver:
    """Saves checkpoints of a run while training goes on, and keeps the newest.

    ::

        with cairn.Saver("ckpt/run1", keep=3, every=1000) as saver:
            state = saver.resume()
            if state is not None:
                model.load_state_dict(state["model"])
                step = state["step"]
            while step < steps:
                ...
                step += 1
                saver.save_async({"model": model.state_dict(), "step": step}, step=step)

    Each checkpoint is as durable as that of ``cairn.save``. A process that is killed at any moment
    leaves the previous one. A program that ends without close() waits for the save under way. In a
    job of several processes, only one of them uses a Saver.

    :param place: the folder of the run: a path, or a URI of a store.
    :param keep: how many checkpoints to keep; when a newer one is durable, the oldest are removed
        of those that this Saver wrote, and after resume(), of those that earlier Savers of this
        run wrote. Other files stay. None: all.
    :param every: save_async() does nothing unless the step is a multiple of this. None: saves each
        time.
    :param latest: the name of a link to the newest checkpoint; None: no link.
    :param filename: the format of the names; ``{batch}`` is the step. The extension selects a
        compression.
    :param run_name: stands in the checkpoints. With it, resume() passes over those that name
        another run. None: the folder's last name.
    :param overwrite: may replace what was in the folder before. By default a name that exists
        raises AlreadyExistsError, unless resume() was called and the run is the same.
    :param allow: as in ``cairn.save`` and ``cairn.load``.
    """

    def __init__(self, place: Place, *, keep: int | None = None, every: int | None = None,
                 latest: str | None = "latest.pt", filename: str = "step{batch}.pt",
                 run_name: str | None = None, overwrite: bool = False,
                 allow: Iterable[type] = ()) -> None:
        if keep is not None and keep < 1:
            raise _errors.UsageError(f"keep is {keep}; give 1 or more, or None for all")
        if every is not None and every < 1:
            raise _errors.UsageError(f"every is {every}; give 1 or more, or None")
        self._every = every
        self._allow = list(_classes.allowed_classes(allow).values())
        # The library's saver is for one thread at a time.
        self._lock = threading.RLock()
        self._pinned = _encode.Pinned()
        self._resumed: str | None = None
        self._handle = _library.SaverHandle()
        options = _library.SaverOptions(
            ctypes.sizeof(_library.SaverOptions), text(place, "place"), text(filename, "filename"),
            None if latest is None else text(latest, "latest"),
            None if run_name is None else text(run_name, "run_name"), keep or 0, overwrite)
        call("cairn_saver_new", byref(options), byref(self._handle.pointer))
        _OPEN.add(self)

    def save_async(self, state: Any, *, step: int | None = None, name: str | None = None) -> bool:
        """Copies the state and returns; a thread saves the copy.

        The state may change as soon as this returns. One save is under way at a time: if the
        previous one is not done, waits for it. If the previous one failed, raises its error, once,
        and does not save this time.

        :param step: the position in training, by which the newest checkpoint is found.
        :param name: the checkpoint's name in the folder, in place of ``filename`` with the step.
        :returns: whether the step was one to save at (``every``).
        """
        self._check_is_open()
        number = -1 if step is None else _checked_step(step)
        if step is None and name is None:
            raise _errors.UsageError("save_async() needs a step, or a name")
        if self._every is not None and step is not None and number % self._every:
            return False
        with self._lock:
            self._check_is_open()
            tree, owners = _encode.encode(state, self._allow, self._pinned)
            tree.warn_of_lost_attributes(f"step {number}" if name is None else name)
            call("cairn_saver_save", self._handle.pointer, tree.pointer,
                 None if name is None else text(name, "name"), number)
            del owners  # the memory that the tree refers to
        return True

    def wait(self) -> None:
        """Waits until all saves are durable. Raises the error of one that failed, once."""
        with self._lock:
            self._check_is_open()
            call("cairn_saver_wait", self._handle.pointer)

    def resume(self, *, map_location: Any = None) -> Any:
        """Loads the newest good checkpoint of the folder; None if there is none.

        Every byte is verified. A damaged checkpoint is passed over, with a CheckpointWarning. From
        now on the checkpoints in the folder that Savers of this run wrote count for ``keep``, and
        steps may be saved again. ``resumed_from`` has the path.
        """
        with self._lock:
            self._check_is_open()
            return self._resume(map_location)

    def _resume(self, map_location: Any) -> Any:
        damaged = None  # the path that was found before
        while True:
            tree, path, skipped = _library.Tree(), c_void_p(damaged), c_void_p()
            call("cairn_saver_resume", self._handle.pointer, byref(tree.pointer), byref(path),
                 byref(skipped))
            warn_of_skipped(skipped)
            damaged = 1  # any that is not null: the library knows what it gave
            self._resumed = taken_text(path)
            if self._resumed is None:
                return None
            try:
                return _decode.decode(tree, self._resumed, map_location, False, self._allow)
            except _errors.CorruptError as e:
                warnings.warn(f"passed over a checkpoint: {e}", _errors.CheckpointWarning,
                              stacklevel=2)

    @property
    def resumed_from(self) -> str | None:
        """The path of the checkpoint that resume() loaded last."""
        return self._resumed

    def close(self) -> None:
        """Waits as wait() does, and ends the thread. Does nothing the second time."""
        if self._handle.is_of_another_process():
            return
        with self._lock:
            if not self._handle.pointer.value:
                return
            _OPEN.discard(self)
            try:
                self.wait()
            finally:
                self._handle.free()

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._close_and_warn()

    def _close_and_warn(self) -> None:
        """Closes it where no error can be raised."""
        try:
            self.close()
        except _errors.Error as e:
            warnings.warn(f"a save failed: {e}", _errors.CheckpointWarning, stacklevel=2)

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._close_and_warn()  # the error of the block is the one to raise

    def _check_is_open(self) -> None:
        if self._handle.is_of_another_process():
            raise _errors.UsageError("the Saver was made before this process was forked; make one "
                                     "in this process")
        if not self._handle.pointer.value:
            raise _errors.UsageError("the Saver is closed")
