#!/usr/bin/python3
"""Saving and loading with `import cairn` beside PyTorch, its DCP and safetensors, in turns.

    PYTHONPATH=python CAIRN_LIBRARY=build/release/lib/libcairn-c.so \
        bench/python/python_bench.py [--mib 1024] [--tensors 300] [--rounds 5] [FOLDER]

Every round does each row once, so that they share the machine's moods; the table has medians, and
ratios of medians. Each save makes a new file, on a disk that has nothing left to write; "durable"
is after fsync() of the file and of its folder. Loads are of files in the page cache, or "cold", of
files that were dropped from it. What is not installed is left out. The exit code is 1 if a ratio
misses its goal.

Needs three times MIB of memory, and six times of disk in FOLDER, on a machine that does nothing
else.
"""
import argparse
import gc
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch

import cairn

try:
    import safetensors.torch
except ImportError:
    safetensors = None
try:
    from torch.distributed.checkpoint import async_save
except ImportError:  # before torch 2.3
    async_save = None

# What, a row, the row that it is divided by, and the goal.
RATIOS = [
    ("durable save", "cairn.save", "torch.save + fsync", 0.6),
    ("durable save", "cairn.save", "torch.save", None),
    ("durable save", "cairn.save", "safetensors.save_file + fsync", None),
    ("stall of a save in the background", "Saver.save_async, stall", "torch.save", 0.15),
    ("stall of a save in the background", "Saver.save_async, stall", "DCP async_save, stall", None),
    ("the same until it is durable", "Saver.save_async, durable", "DCP async_save, written", None),
    ("verified load", "cairn.load", "torch.load", 0.6),
    ("verified load, cold", "cairn.load, cold", "torch.load, cold", None),
    ("mapped, not read", "cairn.load, mapped", "safetensors.load_file", None),
]


def state_of(mib, tensors):
    """Sizes as in a model, half of the tensors small; random bits, so nothing compresses."""
    generator = torch.Generator().manual_seed(1)
    small = tensors // 2
    numel = mib * 1024 * 1024 // 4 // (tensors - small)
    return {f"layers.{n}.weight": torch.rand(1024 if n < small else numel, generator=generator)
            for n in range(tensors)}


def sync(path):
    """Makes a file and its name durable."""
    for name in (path, path.parent):
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def read_through(path):
    """Brings a file into the page cache: cairn's saves go past it."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def drop(path):
    """Drops a file that is on the disk from the page cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


class Turn:
    """One turn of every row."""

    def __init__(self, state, folder, saver):
        self.state, self.folder, self.saver = state, folder, saver
        self.seconds = {}

    def run(self):
        path = self.folder / "torch.pt"
        self.time_steps(("torch.save", lambda: torch.save(self.state, path)),
                        ("torch.save + fsync", lambda: sync(path)))
        mine = self.folder / "cairn.pt"
        self.time_steps(("cairn.save", lambda: cairn.save(self.state, mine)))
        self.time_steps(
            ("Saver.save_async, stall", lambda: self.saver.save_async(self.state, name="s.pt")),
            ("Saver.save_async, durable", self.saver.wait))
        if async_save:
            pending = []
            self.time_steps(
                ("DCP async_save, stall", lambda: pending.append(
                    async_save(self.state, checkpoint_id=self.folder / "dcp"))),
                ("DCP async_save, written", lambda: pending[0].result()))
        for where, prepare in (("", read_through), (", cold", drop)):
            prepare(path)
            self.time_steps((f"torch.load{where}", lambda: torch.load(path)))
            prepare(mine)
            self.time_steps((f"cairn.load{where}", lambda: cairn.load(mine)))
        self.time_steps(("cairn.load, mapped", lambda: cairn.load(mine, mmap=True, verify=False)))
        if safetensors:
            other = self.folder / "model.safetensors"
            self.time_steps(
                ("safetensors.save_file", lambda: safetensors.torch.save_file(self.state, other)),
                ("safetensors.save_file + fsync", lambda: sync(other)))
            read_through(other)
            self.time_steps(("safetensors.load_file",
                             lambda: safetensors.torch.load_file(other)))
        return self.seconds

    def time_steps(self, *steps):
        """Each step's seconds are since the first one began. What a step returns is freed later."""
        gc.collect()
        os.sync()
        begin = time.perf_counter()
        for row, action in steps:
            result = action()
            self.seconds[row] = time.perf_counter() - begin
        del result


def measure(mib, tensors, rounds, parent):
    """{row: median of its seconds}"""
    state = state_of(mib, tensors)
    turns = []
    with tempfile.TemporaryDirectory(dir=parent) as place:
        with cairn.Saver(pathlib.Path(place), latest=None) as saver:
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(dir=parent) as folder:
                    turns.append(Turn(state, pathlib.Path(folder), saver).run())
                (pathlib.Path(place) / "s.pt").unlink()
    return {row: statistics.median(turn[row] for turn in turns) for row in turns[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--tensors", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    arguments = parser.parse_args()
    medians = measure(arguments.mib, arguments.tensors, arguments.rounds, arguments.folder)

    print(f"{arguments.mib} MiB in {arguments.tensors} tensors, medians of {arguments.rounds}; "
          f"Python {sys.version.split()[0]}, torch {torch.__version__}, "
          f"{torch.get_num_threads()} threads\n")
    print("| row | s |\n|---|---|")
    for row, seconds in medians.items():
        print(f"| {row} | {seconds:.3f} |")
    print("\n| cairn | against | ratio | goal |\n|---|---|---|---|")
    missed = 0
    for what, mine, other, goal in RATIOS:
        if other in medians:
            ratio = medians[mine] / medians[other]
            missed += goal is not None and ratio > goal
            print(f"| {what} | {other} | {ratio:.2f} | {goal or ''} |")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
