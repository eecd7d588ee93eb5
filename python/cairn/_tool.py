"""The tool's commands as functions, in this process."""
from __future__ import annotations

import json
import os
import sys
import warnings
from ctypes import byref, c_int
from typing import Any, Iterable, Mapping, Sequence

from . import _errors
from ._checkpoints import Place
from ._library import Answer, call, taken_text, texts

# The errors by the tool's exit codes (cairn/exit_code.h), where they tell one.
_BY_EXIT_CODE: dict[int, type[_errors.Error]] = {
    3: _errors.NotFoundError, 4: _errors.CorruptError, 5: _errors.UnsupportedError,
    6: _errors.StorageError, 7: _errors.StorageError, 8: _errors.StorageError,
    9: _errors.BusyError}
_DONE = 0
_BAD_ANSWER = 1  # a checkpoint is damaged
_NOT_FOUND = 3
_DAMAGED = 4


def _error(code: int, message: str, kind: type[_errors.Error] | None = None) -> _errors.Error:
    error = (kind or _BY_EXIT_CODE.get(code, _errors.Error))(message)
    error.exit_code = code
    return error


def _words(options: Mapping[str, Any]) -> list[str]:
    """keep_last=3 as --keep-last=3. None and False are left out; a list is given item by item."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words.extend(f"{option}={item}" for item in value)
        elif value is not None and value is not False:
            words.append(f"{option}={value}")
    return words


def _run(command: str, places: Iterable[Place], options: Mapping[str, Any]) -> tuple[int, Any]:
    """Runs a command with --json. Returns its exit code and its answer; raises its error."""
    words = [command, "--json", "--quiet", *_words(options), "--", *places]
    answer = Answer()
    call("cairn_tool", texts(words, "an argument"), len(words), byref(answer))
    code, out, err = answer.exit_code, taken_text(answer.out), taken_text(answer.err)
    if not out:
        raise _error(code, (err or "").strip().removeprefix("cairn: "))
    said = json.loads(out)
    if said.get("error"):
        raise _error(code, said["error"], getattr(_errors, said["error_class"]))
    for line in (err or "").splitlines():
        warnings.warn(line.removeprefix("cairn: "), _errors.CheckpointWarning, stacklevel=3)
    return code, said


def _is_damaged(row: Mapping[str, Any]) -> bool:
    return bool(row["damage"]) or bool(row["problem"])


def _damage_of(row: Mapping[str, Any]) -> str:
    """A line about a checkpoint that is not whole."""
    places = [f"{', '.join(damage['tensors']) or damage['record'] or 'the file'}, bytes "
              f"{damage['begin']} to {damage['end']}: {damage['what']}" for damage in row["damage"]]
    return f"{row['path']} is damaged: " + "; ".join(places or [row["problem"]])


def verify(place: Place, *, full: bool = True, recursive: bool = False) -> list[dict[str, Any]]:
    """Checks a checkpoint, or all that are directly in a folder. A dict for each of them.

    Raises CorruptError, which names what is damaged: the tensors, and the bytes of the file.

    :param full: check every byte. Otherwise structure and sizes only.
    :param recursive: look into the folders below, too.
    """
    code, answer = _run("verify", [place], {"full": full, "recursive": recursive})
    rows = answer["files"]
    if code == _DONE:
        return rows
    if code == _BAD_ANSWER:
        raise _error(_DAMAGED, "\n".join(map(_damage_of, filter(_is_damaged, rows))))
    problems = [row["problem"] for row in rows if row["problem"]]
    raise _error(code, problems[0] if problems else f"{place}: there is no checkpoint")


def ls(place: Place, *, recursive: bool = False, verify: bool = False,
       all: bool = False) -> list[dict[str, Any]]:
    """The checkpoints in a folder, the furthest in training last. A dict for each of them.

    :param recursive: look into the folders below, too.
    :param verify: check every byte of each.
    :param all: open all files, not only the newest hundred.
    """
    code, answer = _run("ls", [place], {"recursive": recursive, "verify": verify, "all": all})
    if code not in (_DONE, _BAD_ANSWER, _NOT_FOUND):
        raise _error(code, f"{place}: the folder cannot be listed")
    return answer["checkpoints"]


def prune(place: Place, *, keep_last: int | None = None, keep_size: str | None = None,
          keep_daily: int | None = None, keep_weekly: int | None = None,
          keep_every: str | Sequence[str] | None = None,
          keep_best: str | Sequence[str] | None = None, mode: str | None = None,
          keep_within: str | None = None, recursive: bool = False, verify: bool = False,
          yes: bool = False) -> dict[str, Any]:
    """Removes the checkpoints in a folder that no rule keeps. Returns the plan.

    :param keep_last: keep the furthest so many.
    :param keep_size: keep the newest that fit into this size together: "100GB".
    :param keep_daily: keep the furthest of each of so many days.
    :param keep_weekly: keep the furthest of each of so many weeks.
    :param keep_every: keep the first at or after each multiple: "1000ba".
    :param keep_best: keep the best by a saved metric: "eval/loss:3".
    :param mode: which values ``keep_best`` keeps: "min", "max" or "auto".
    :param keep_within: keep those made within this time: "7d".
    :param recursive: look into the folders below, too, each by itself.
    :param verify: check every byte of all, not only of the newest.
    :param yes: remove. Without it only the plan is made.
    """
    rules = {"keep_last": keep_last, "keep_size": keep_size, "keep_daily": keep_daily,
             "keep_weekly": keep_weekly, "keep_every": keep_every, "keep_best": keep_best,
             "mode": mode, "keep_within": keep_within}
    code, answer = _run("prune", [place],
                        {**rules, "recursive": recursive, "verify": verify, "yes": yes})
    if code != _DONE:
        lines = [f"{place}: nothing older is removed, because {row['name']} does not verify: "
                 f"{row['problem']}; put it aside to go on" for row in answer.get("blocked_by", [])]
        raise _error(code, "\n".join(lines) or f"{place}: not all could be removed")
    return answer


def copy(source: Place, destination: Place, *, overwrite: bool = False,
         verify: bool = True) -> dict[str, Any]:
    """Puts a checkpoint somewhere else, byte for byte: whole, or not at all.

    :param destination: its new name; with a slash at the end, the folder that it goes into.
    :param overwrite: replace the destination if it exists.
    :param verify: check every byte first.
    """
    return _run("copy", [source, destination], {"overwrite": overwrite, "quick": not verify})[1]


def convert(source: Place | Sequence[Place], destination: Place, *, to: str | None = None,
            weights_only: bool = False, include: Sequence[str] = (), exclude: Sequence[str] = (),
            rename: Mapping[str, str] | None = None, dtype: str | None = None,
            drop_objects: bool = False, shard_size: str | None = None, overwrite: bool = False,
            verify: bool = True) -> dict[str, Any]:
    """Turns a checkpoint into another format, which the destination's extension names.

    :param source: a checkpoint of any format, or the files of all ranks.
    :param to: "torch", "safetensors" or "dcp", whatever the extension.
    :param weights_only: only the model's state dict.
    :param include: only paths that match: "state/model/*".
    :param exclude: leave out paths that match.
    :param rename: replacements for the beginnings of the tensors' names.
    :param dtype: "bf16", "fp16" or "fp32" for floating-point tensors.
    :param drop_objects: leave out objects of classes that cairn does not know.
    :param shard_size: write a folder of safetensors files of at most this size: "5GB".
    :param overwrite: replace the destination if it exists.
    :param verify: check every byte of the source first.
    """
    sources = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    options = {"to": to, "weights_only": weights_only, "include": list(include),
               "exclude": list(exclude),
               "rename": [f"{old}={new}" for old, new in (rename or {}).items()],
               "dtype": dtype, "drop_objects": drop_objects, "shard_size": shard_size,
               "overwrite": overwrite, "quick": not verify}
    return _run("convert", [*sources, destination], options)[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the tool does with these arguments, and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = c_int()
    sys.stdout.flush()
    call("cairn_tool_main", texts(words, "an argument"), len(words), byref(code))
    return code.value
