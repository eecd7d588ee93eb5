"""Lightning's checkpoints through cairn: durable, verified, and written while training continues.

    import cairn.lightning

    trainer = lightning.Trainer(plugins=[cairn.lightning.CheckpointIO()])

The files are those of Lightning's own plug-in: `torch.load()` and
`Trainer.fit(ckpt_path=...)` open them. This module imports Lightning; `import cairn` does not.
"""
from __future__ import annotations

import os
import sys
from typing import Any, Optional, Union

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
    durable. The error of a save is raised by the next call of this plug-in, at the latest when the
    trainer is torn down. Pass classes of your own that are in the state (hyperparameters) in
    `allow`, as to `cairn.save()`.
    """

    def __init__(self, *, allow: tuple[type, ...] = ()):
        super().__init__()
        self._allow = tuple(allow)
        self._savers: dict[str, cairn.Saver] = {}  # of each folder

    def save_checkpoint(self, checkpoint: dict[str, Any], path: _Path,
                        storage_options: Optional[Any] = None) -> None:
        """Begins to save; returns when the tensors are copied."""
        if storage_options is not None:
            raise TypeError("cairn.lightning.CheckpointIO takes no storage_options: stores are "
                            "configured by their environment variables")
        folder, name = os.path.split(os.fspath(path))
        if folder not in self._savers:
            self._savers[folder] = cairn.Saver(folder or ".", latest=None, allow=self._allow)
        self._savers[folder].save_async(checkpoint, name=name)

    def load_checkpoint(self, path: _Path, map_location: Optional[Any] = "cpu",
                        weights_only: Optional[bool] = None) -> dict[str, Any]:
        """Loads a checkpoint, every byte of it verified. Runs no code of it, whatever
        `weights_only` is: classes that are not in `allow` come as placeholders."""
        del weights_only
        self.wait()
        return cairn.load(path, map_location=map_location, allow=self._allow)

    def remove_checkpoint(self, path: _Path) -> None:
        """Removes a checkpoint. One that is not there is no error."""
        self.wait()
        cairn.remove(path)

    def teardown(self) -> None:
        """Waits until all checkpoints are durable."""
        self.wait()

    def wait(self) -> None:
        """Waits until all checkpoints are durable. Raises the first error of a save, once."""
        for saver in self._savers.values():
            saver.wait()
