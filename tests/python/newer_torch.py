"""Where a test finds a PyTorch of today, when the one of this machine is older.

In a Debian in a folder, which the environment variable CAIRN_TORCH_ROOT names (several: with ":"
between them). HACKING.md says how to make one.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def version_here():
    try:
        import torch
    except ImportError:
        return (0, 0)
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


class Here:
    """This very Python."""

    @contextlib.contextmanager
    def folder(self):
        with tempfile.TemporaryDirectory() as path:
            yield pathlib.Path(path)

    def run(self, script, arguments, folder, environment=()):
        del folder
        subprocess.run(["env", *environment, sys.executable, script, *map(str, arguments)],
                       check=True)


class Root:
    """The Python of a Debian in a folder; its files are seen there without the folder's name."""

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()

    @contextlib.contextmanager
    def folder(self):
        with tempfile.TemporaryDirectory(dir=self.path / "tmp") as path:
            yield pathlib.Path(path)

    def inside(self, argument):
        text = str(argument)
        return text.removeprefix(str(self.path)) if text.startswith(f"{self.path}/") else text

    def run(self, script, arguments, folder, environment=()):
        """With "NAME=VALUE"s as its environment beside what every run has."""
        copy = pathlib.Path(shutil.copy(script, folder))
        shutil.copy(__file__, folder)
        inside = [self.inside(argument) for argument in (copy, *arguments)]
        # Processes and mounts of its own: nothing is left of them behind it.
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child",
                        f"--root={self.path}", "--mount-proc", "--wd=/tmp", "env", "-i",
                        "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "USE_LIBUV=0",
                        "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1",
                        *environment, "python3", *inside], check=True)


def roots():
    """Each Debian that CAIRN_TORCH_ROOT names."""
    return [Root(path) for path in os.environ.get("CAIRN_TORCH_ROOT", "").split(":") if path]


def newer_torches(least):
    """Those that there are, of at least that version. Exits with 77 when there is none."""
    found = roots()
    if not found and version_here() >= least:
        return [Here()]
    if not found:
        print(f"no PyTorch {'.'.join(map(str, least))} or newer here, and no CAIRN_TORCH_ROOT")
        sys.exit(SKIPPED)
    return found
