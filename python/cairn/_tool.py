"""The tool's commands as functions, in this process."""
from __future__ import annotations

import json
import os
import sys
from ctypes import byref, c_int
from typing import Any, Sequence

from . import _errors
from ._checkpoints import Place
from ._library import Answer, call, taken_text, texts

# The errors by the tool's exit codes (cairn/exit_code.h), where they tell one.
_BY_EXIT_CODE: dict[int, type[_errors.Error]] = {
    3: _errors.NotFoundError, 4: _errors.CorruptError, 5: _errors.UnsupportedError,
    6: _errors.StorageError, 7: _errors.StorageError, 8: _errors.StorageError,
    9: _errors.BusyError}


def _run(arguments: Sequence[str]) -> tuple[int, str, str]:
    answer = Answer()
    call("cairn_tool", texts(arguments), len(arguments), byref(answer))
    return answer.exit_code, taken_text(answer.out) or "", taken_text(answer.err) or ""


def run_json(command: str, *arguments: Any) -> tuple[int, Any]:
    """Runs a command with --json. Returns its exit code and its answer; raises its error."""
    words = [command, "--json", *map(os.fspath, arguments)]
    code, out, err = _run(words)
    answer = json.loads(out) if out.strip() else {}
    if isinstance(answer, dict) and "error" in answer and "exit_code" in answer:
        error = _BY_EXIT_CODE.get(code, _errors.Error)(answer["error"])
        error.exit_code = code
        raise error
    return code, answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the tool does with these arguments, and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = c_int()
    sys.stdout.flush()
    call("cairn_tool_main", texts(words), len(words), byref(code))
    return code.value
