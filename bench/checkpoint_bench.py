#!/usr/bin/env python3
"""Saving and loading beside torch.save, torch.load, memcpy and raw direct I/O of the same bytes.

  bench/checkpoint_bench.py [--device=cuda:0] build/release/bin/checkpoint_bench
                            [FOLDER] [MIB] [ROUNDS] [TENSORS...]

Default: 1024 MiB of random-looking float32 in 256, 10000 and 100000 tensors, of equal sizes and of
those of a transformer, 5 rounds in which cairn and torch take turns. Every row is a ratio of
medians of one run, with what it must reach. torch.save is not made durable: it returns when the
bytes are in the page cache; cairn's saves are. Each save makes a new file on a disk that has
nothing left to write; "cold" is a file that was dropped from the page cache. Without python3-torch
its rows are left out. The exit code is 1 when a row misses what it must reach.

Needs 5 times MIB of memory and of disk in FOLDER, and a machine that does nothing else: when raw
I/O of one round takes twice that of another, the run says so and cannot be judged.

With --device the model's tensors, cairn's and torch's, are on that one (with torch.load they come
there), and copies between it and pinned memory stand beside them.
"""
import argparse
import itertools
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = [  # what, divided by, must; of (name, column): 0 is seconds, 1 CPU seconds
    ("durable save, new file / raw direct write", ("save", 0), ("raw_write", 0), 1.1),
    ("a saver's next durable save, new file / raw direct write", ("saver_next", 0),
     ("raw_write", 0), 1.1),
    ("a saver's first durable save, new file / raw direct write", ("saver_first", 0),
     ("raw_write", 0), None),
    ("durable save, recycled file / torch.save", ("save_recycled", 0), ("torch_save", 0), 0.5),
    ("durable save, recycled file / raw direct write over a file", ("save_recycled", 0),
     ("raw_rewrite", 0), None),
    ("durable save, new file / torch.save", ("save", 0), ("torch_save", 0), None),
    ("CPU of a durable save / of torch.save", ("save", 1), ("torch_save", 1), 0.12),
    ("CPU of a saver's next durable save / of torch.save", ("saver_next", 1), ("torch_save", 1),
     0.12),
    ("stall of a saver's first asynchronous save / memcpy", ("stall_first", 0), ("memcpy", 0),
     None),
    ("stall of an asynchronous save / memcpy", ("stall", 0), ("memcpy", 0), 1.1),
    ("stall of an asynchronous save / torch.save", ("stall", 0), ("torch_save", 0), None),
    ("asynchronous save until durable / raw direct write", ("async_save", 0), ("raw_write", 0),
     1.1),
    ("load in place, verified, cold / raw read into memory in use", ("in_place_cold", 0),
     ("raw_read", 0), 1.15),
    ("load in place, verified, warm / memcpy into memory in use", ("in_place_warm", 0),
     ("memcpy", 0), 1.5),
    ("load into live parameters, verified, cold / raw read, fresh memory", ("load_cold", 0),
     ("raw_read_fresh", 0), 1.15),
    ("load into live parameters, verified, warm / memcpy, fresh memory", ("load_warm", 0),
     ("memcpy_fresh", 0), 1.5),
    ("... cold / raw read into memory in use", ("load_cold", 0), ("raw_read", 0), None),
    ("... warm / memcpy into memory in use", ("load_warm", 0), ("memcpy", 0), None),
    ("... cold / torch.load and copy", ("load_cold", 0), ("torch_load_cold", 0), None),
    ("... warm / torch.load and copy", ("load_warm", 0), ("torch_load_warm", 0), None),
    ("stall of an asynchronous save / one copy to pinned memory", ("stall", 0), ("to_host", 0),
     None),
    ("stall of an asynchronous save / .cpu() of every tensor", ("stall", 0), ("to_cpu", 0), None),
    ("stall of an asynchronous save / a copy on the device", ("stall", 0), ("device_copy", 0),
     None),
    ("steps while an asynchronous save is written / without", ("steps_saving", 0), ("steps", 0),
     None),
    ("load into live parameters, verified, warm / copy from pinned memory", ("load_warm", 0),
     ("to_device", 0), None),
    ("raw direct write over a file / into a new one", ("raw_rewrite", 0), ("raw_write", 0), None),
    ("more memory, save that waits, MiB", ("save_memory", 0), None, 32),
    ("more memory, load in place, MiB", ("in_place_memory", 0), None, 64),
    ("more memory, load, MiB", ("load_memory", 0), None, None),
    ("more memory, asynchronous save, MiB", ("async_memory", 0), None, None),
]
GROWTH = [("save", 1.15), ("load_cold", 1.15), ("in_place_cold", 1.15), ("load_warm", None),
          ("stall", 1.15)]


def equal_sizes(tensors, elements):
    return [elements // tensors] * tensors


def model_sizes(tensors, elements):
    """A transformer's: an embedding and blocks of large matrices, small norms and biases; each with
    the two moments and the step of its optimizer."""
    vocabulary = (0, 50_000)
    # In widths squared and in widths: attention, its projection and two layers, with biases; norms
    block = [(3, 0), (0, 3), (1, 0), (0, 1), (4, 0), (0, 4), (4, 0), (0, 1)] + [(0, 1)] * 4
    parts = [vocabulary, *itertools.islice(itertools.cycle(block), tensors // 4 - 1)]
    squares, widths = (sum(column) for column in zip(*parts))
    width = (math.sqrt(widths**2 + 4 * squares * elements / 3) - widths) / (2 * squares)
    sizes = [max(1, int(square * width**2 + linear * width)) for square, linear in parts]
    return [count for size in sizes for count in (size, size, size, 1)]


MIXES = {"equal sizes": equal_sizes, "a transformer's sizes": model_sizes}


# --- torch's side, in a process of its own ----------------------------------------------------

def measured(name, body):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    result = body()
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    return result, f"{name} {seconds:.5f} {cpu:.5f}"


def run_torch(folder, sizes_file, device):
    import torch

    with open(sizes_file) as file:
        sizes = [int(line) for line in file]
    state = {"state": {"model": {f"layer{i}_weight": torch.rand(size, device=device)
                                 for i, size in enumerate(sizes)}}}
    live = {name: torch.zeros_like(tensor) for name, tensor in state["state"]["model"].items()}
    path = os.path.join(folder, "torch_save.pt")

    def load():
        for name, tensor in torch.load(path)["state"]["model"].items():
            live[name].copy_(tensor)
        if device != "cpu":
            torch.cuda.synchronize()

    for is_last in (False, True):  # the first one warms up
        if os.path.exists(path):
            os.remove(path)
        os.sync()
        lines = [measured("torch_save", lambda: torch.save(state, path))[1]]
        os.sync()
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        lines += [measured("torch_load_cold", load)[1], measured("torch_load_warm", load)[1]]
        if is_last:
            print("\n".join(lines))
    os.remove(path)


def has_torch(python, device):
    command = [python, "-c", f"import torch; torch.zeros(1, device='{device}')"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


# --- The run -------------------------------------------------------------------------------------

def collect(samples, command):
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        name, *amounts = line.split()
        samples.setdefault(name, []).append([float(amount) for amount in amounts])


def measure(program, python, folder, sizes, rounds, device):
    sizes_file = os.path.join(folder, "sizes")
    with open(sizes_file, "w") as file:
        file.write("\n".join(map(str, sizes)))
    samples = {}
    for _ in range(rounds):
        collect(samples, [program, folder, sizes_file, "1", "all", device])
        if python:
            collect(samples, [python, os.path.abspath(__file__), "--device", device, "--torch",
                              folder, sizes_file])
    return samples


def median(samples, what):
    name, column = what
    return statistics.median(line[column] for line in samples[name])


def print_row(what, ratio, must):
    """False when the row misses what it must reach."""
    good = ratio is None or must is None or ratio <= must
    found = "not built" if ratio is None else f"{ratio:9.2f}"
    print(f"  {what:62}{found}   {'' if must is None else f'must {must}'}"
          f"{'' if good else '   MISSED'}")
    return good


def print_amounts(samples):
    print(f"  {'':24}{'median s':>10}{'best s':>10}{'worst s':>10}{'CPU s':>10}")
    for name, lines in samples.items():
        if len(lines[0]) < 2:
            continue
        seconds = [line[0] for line in lines]
        print(f"  {name:24}{statistics.median(seconds):10.4f}{min(seconds):10.4f}"
              f"{max(seconds):10.4f}{median(samples, (name, 1)):10.4f}")
    for name in ("raw_write", "raw_read"):
        seconds = [line[0] for line in samples[name]]
        if max(seconds) > 2 * min(seconds):
            span = f"{min(seconds):.3f} to {max(seconds):.3f} s"
            print(f"  NOT TO BE JUDGED: {name} took from {span}")


def print_ratios(samples):
    good = True
    for what, above, below, must in ROWS:
        if any(side and side[0] not in samples for side in (above, below)):
            continue  # of torch, which is not there
        ratio = None
        if above:
            ratio = median(samples, above) / (median(samples, below) if below else 1)
        good &= print_row(what, ratio, must)
    return good


def print_growth(fewest, most, counts):
    """How time grows with the number of tensors."""
    good = True
    for name, must in GROWTH:
        ratio = median(most, (name, 0)) / median(fewest, (name, 0))
        good &= print_row(f"{name} of {counts[-1]} tensors / of {counts[0]}", ratio, must)
    return good


def run(device, program, folder=".", mib=1024, rounds=5, *counts):
    counts = [int(count) for count in counts] or [256, 10_000, 100_000]
    python = next((p for p in (sys.executable, "/usr/bin/python3") if has_torch(p, device)), None)
    if python is None:
        print(f"there is no python3-torch for {device}: its rows are left out")
    good = True
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        for mix, sizes_of in MIXES.items():
            by_count = []
            for count in counts:
                sizes = sizes_of(count, int(mib) << 18)
                load = os.getloadavg()[0]
                by_count.append(measure(program, python, inside, sizes, int(rounds), device))
                print(f"\n{sum(sizes) >> 18} MiB in {len(sizes)} tensors of {mix}, {rounds} "
                      f"rounds, load average before {load:.1f}", flush=True)
                print_amounts(by_count[-1])
                good &= print_ratios(by_count[-1])
            if len(counts) > 1:
                print(f"\n{mix}")
                good &= print_growth(by_count[0], by_count[-1], counts)
    return 0 if good else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--torch", action="store_true")  # one round of torch's side, by itself
    parser.add_argument("what", nargs="+")
    arguments = parser.parse_args()
    if arguments.torch:
        run_torch(*arguments.what, arguments.device)
    else:
        sys.exit(run(arguments.device, *arguments.what))
