"""Lightning's checkpoints through cairn: durable, verified, and written while training continues.

    import cairn.lightning

    trainer = lightning.Trainer(plugins=[cairn.lightning.CheckpointIO()])

The files are those of Lightning's own plug-in: `torch.load()` and
`Trainer.fit(ckpt_path=...)` open them. This module imports Lightning; `import cairn` does not.
"""
from __future__ import annotations

import os
import sys
from typing import Any, Iterable, Optional, Union

import cairn

try:
    # The two packages have classes of their own: take those of the one that the program uses.
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO as _CheckpointIO
    else:
        try:
            from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO as _CheckpointIO
        except ModuleNotFoundError:
            from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO as _CheckpointIO
except ImportError as error:
    raise ImportError("cairn.lightning needs Lightning, which cannot be imported "
                      f"({error}): pip install lightning") from error

__all__ = ["CheckpointIO"]

_Path = Union[str, "os.PathLike[str]"]


class CheckpointIO(_CheckpointIO):
    """Saves and loads Lightning's checkpoints with `cairn.Saver` and `cairn.load()`.

    A save returns as soon as the state is copied, and the file gets its name when every byte is
    durable. A checkpoint that a newer one makes superfluous is removed when the newer one is
    durable. The error of a save is raised by the next call of this plug-in, at the latest when the
    trainer is torn down. Pass classes of your own that are in the state (hyperparameters) in
    `allow`, as to `cairn.save()`.
    """

    def __init__(self, *, allow: Iterable[type] = ()):
        super().__init__()
        self._allow = tuple(allow)
        self._saver: Optional[cairn.Saver] = None  # of the folder that was saved to last
        self._folder = ""
        self._may_be_saving = False
        self._superfluous: list[str] = []  # to be removed when the save under way is durable

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _Path,
                        storage_options: Optional[Any] = None) -> None:
        """Begins to save; returns when the tensors are copied."""
        if storage_options is not None:
            raise TypeError("cairn.lightning.CheckpointIO takes no storage_options: stores are "
                            "configured by their environment variables")
        path = os.fspath(path)
        folder, name = os.path.split(path)
        saver = self._saver_of(folder)
        superfluous, self._superfluous = self._superfluous, []
        # Waits for the previous save. If that failed, raises its error, and nothing is removed.
        saver.save_async(checkpoint, name=name)
        self._may_be_saving = True
        self._remove([old for old in superfluous if old != path])

    def load_checkpoint(self, path: _Path, map_location: Optional[Any] = "cpu",
                        weights_only: Optional[bool] = None) -> dict[str, Any]:
        """Loads a checkpoint, every byte of it verified. Runs no code of it, whatever
        `weights_only` is: classes that are not in `allow` come as placeholders."""
        del weights_only
        self.wait()
        return cairn.load(path, map_location=map_location, allow=self._allow)

    def remove_checkpoint(self, path: _Path) -> None:
        """Removes a checkpoint, after the save that is under way. A missing one is no error."""
        if self._may_be_saving:
            self._superfluous.append(os.fspath(path))
        else:
            cairn.remove(path)

    def teardown(self) -> None:
        """Waits until all checkpoints are durable."""
        self.wait()

    def wait(self) -> None:
        """Waits until all checkpoints are durable. Raises the error of a save, once."""
        superfluous, self._superfluous = self._superfluous, []
        self._may_be_saving = False
        if self._saver is not None:
            self._saver.wait()
        self._remove(superfluous)

    def _saver_of(self, folder: str) -> cairn.Saver:
        """One saver at a time, since each holds a copy of the state."""
        if self._saver is None or folder != self._folder:
            self.wait()
            if self._saver is not None:
                self._saver.close()
            # As Lightning's own plug-in, replaces what is there.
            self._saver = cairn.Saver(folder or ".", latest=None, overwrite=True,
                                      allow=self._allow)
            self._folder = folder
        return self._saver

    @staticmethod
    def _remove(paths: list[str]) -> None:
        for path in paths:
            cairn.remove(path)
