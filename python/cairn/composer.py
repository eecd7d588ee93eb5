"""Composer's CheckpointSaver over cairn: durable, verified, and written while training continues.

    import cairn.composer

    trainer = composer.Trainer(
        model=model, train_dataloader=loader, max_duration="2ep", run_name="mine", autoresume=True,
        callbacks=[cairn.composer.CheckpointSaver(folder="{run_name}/checkpoints")])

The files are Composer's own: `Trainer(load_path=...)`, `autoresume` and cairn's Trainer in C++ open
them. This module imports Composer; `import cairn` does not.
"""
from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Optional, Union

import cairn

try:
    from composer import callbacks
    from composer.utils import checkpoint, dist, format_name_with_dist, parse_uri, reproducibility
except ImportError as error:
    raise ImportError("cairn.composer needs MosaicML's Composer, which cannot be imported "
                      f"({error}): pip install mosaicml") from error

__all__ = ["CheckpointSaver"]


class CheckpointSaver(callbacks.CheckpointSaver):
    """Saves Composer's checkpoints through `cairn.Saver`.

    Takes the place of `composer.callbacks.CheckpointSaver`, with the same names, intervals and
    conflict check. A save returns as soon as the state is copied. The file gets its name only when
    every byte is durable, and then the link to the latest one moves. An error of a save is raised
    by the next save or at the end of `fit()`.

    Args:
        folder: folder of the checkpoints, or its URI (`s3://bucket/...`: every store of cairn).
            Files in a store are written there directly. Composer's `autoresume` finds only
            local ones; for a store, pass `load_path=cairn.find_latest(uri)`.
        filename, latest_filename: names below the folder, with Composer's variables. No link is
            made if `latest_filename` is None.
        save_interval: when to save: `"1ep"`, `"100ba"`, or a function of state and event.
        overwrite: whether files of later batches may be replaced.
        num_checkpoints_to_keep: how many of this run's checkpoints stay; -1: all of them.
        weights_only, ignore_keys: what is saved, as in Composer.
        allow: classes of your own in the state, as in `cairn.save()`.

    Nothing is handed to Composer's loggers to upload. Sharded state dicts of FSDP are refused:
    save these with Composer's own saver.
    """

    def __init__(
        self,
        folder: Union[str, "os.PathLike[str]"] = "{run_name}/checkpoints",
        filename: str = "ep{epoch}-ba{batch}-rank{rank}.pt",
        latest_filename: Optional[str] = "latest-rank{rank}.pt",
        save_interval: Any = "1ep",
        *,
        overwrite: bool = False,
        num_checkpoints_to_keep: int = -1,
        weights_only: bool = False,
        ignore_keys: Optional[Union[list[str], Callable[[dict], None]]] = None,
        allow: Iterable[type] = (),
    ):
        if num_checkpoints_to_keep == 0:
            raise ValueError("num_checkpoints_to_keep=0 would remove each checkpoint at once; "
                             "pass -1 to keep all, or 1 or more")
        folder = os.fspath(folder)
        self._is_uri = parse_uri(folder)[0] != ""
        # Composer gives a URI a temporary folder and an uploader, which nothing needs here.
        super().__init__("." if self._is_uri else folder, filename, None, latest_filename, None,
                         save_interval, overwrite=overwrite, weights_only=weights_only,
                         num_checkpoints_to_keep=num_checkpoints_to_keep, ignore_keys=ignore_keys)
        if self._is_uri:
            self.folder = self.filename.folder = folder
            if self.latest_filename is not None:
                self.latest_filename.folder = folder
        elif latest_filename:
            # autoresume asks for this name. A logger that has such a file may give it.
            self.latest_remote_file_name = checkpoint.PartialFilePath(latest_filename, folder)
        self._allow = tuple(allow)
        self._saver: Optional[cairn.Saver] = None

    def init(self, state: Any, logger: Any) -> None:
        if state.fsdp_sharded_state_dict_enabled:
            raise NotImplementedError(
                "cairn.composer.CheckpointSaver writes whole checkpoints, and this run's state is "
                "sharded: set fsdp_config's state_dict_type to 'full', or use "
                "composer.callbacks.CheckpointSaver")
        if not self._is_uri:
            super().init(state, logger)

    def fit_start(self, state: Any, logger: Any) -> None:
        if not self._is_uri:
            super().fit_start(state, logger)
        self.start_batch = state.timestamp.batch

    def fit_end(self, state: Any, logger: Any) -> None:
        """Waits until all checkpoints are durable, and raises the error of a save."""
        del state, logger
        self.wait()

    def close(self, state: Any, logger: Any) -> None:
        """Composer logs an error that this raises, and closes the other callbacks."""
        del state, logger
        self.wait()

    def wait(self) -> None:
        """Waits until all checkpoints are durable. Raises the first error of a save, once."""
        if self._saver is not None:
            self._saver.wait()

    def _save_checkpoint(self, state: Any, logger: Any) -> None:
        del logger
        self.last_checkpoint_batch = state.timestamp.batch
        path = self.filename.format(state)
        self.all_saved_checkpoints_to_timestamp[path] = state.timestamp  # is in the file itself
        # Every rank gathers the state; rank 0 saves it.
        content = self._content(state)
        if dist.get_global_rank() != 0:
            return
        if self._saver is None:
            self._saver = self._new_saver(state)
        folder = format_name_with_dist(self.folder, state.run_name)
        self._saver.save_async(content, name=os.path.relpath(path, folder))
        self.saved_checkpoints.append(path)
        if self.num_checkpoints_to_keep > 0:
            del self.saved_checkpoints[:-self.num_checkpoints_to_keep]

    def _content(self, state: Any) -> dict[str, Any]:
        """The dict that Composer's _save_checkpoint() writes."""
        if self.weights_only:
            content = {"state": {
                "model": state.get_model_state_dict(),
                "integrations": state._get_integrations_state_dict(),
                "metadata": state._get_state_metadata()}}
        else:
            content = {"state": state.state_dict(), "rng": reproducibility.get_rng_state()}
        if self.ignore_keys:
            ignore = self.ignore_keys
            (ignore if callable(ignore) else checkpoint.glob_filter(ignore))(content)
            content.setdefault("state", {})
        return content

    def _new_saver(self, state: Any) -> "cairn.Saver":
        latest = None
        folder = format_name_with_dist(self.folder, state.run_name)
        if self.latest_filename is not None:
            latest = os.path.relpath(self.latest_filename.format(state), folder)
        keep = self.num_checkpoints_to_keep if self.num_checkpoints_to_keep > 0 else None
        # The conflict check has found no file of a later batch, so a file with this name is one of
        # this run's that the run no longer counts; Composer replaces it, too.
        return cairn.Saver(folder, keep=keep, latest=latest, allow=self._allow,
                           overwrite=self.overwrite or not self._is_uri)
