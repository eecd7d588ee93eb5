#!/usr/bin/env python3
"""cairn's save beside torch.save of the same tensors, run in turns; prints medians and ratios.

  bench/save_bench.py build/release/bin/save_bench [FOLDER] [ROUNDS]

torch.save is not made durable: it returns when the bytes are in the page cache. Both write a new
file each time, on a disk that has nothing left to write. Needs python3-torch.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

MIB = 1024
TARGETS = [  # (what, divided by, at most)
    ("durable_save", "torch.save", 1.0),
    ("submit_stall", "torch.save", 0.25),
    ("save_extra_mib", None, 64),
    ("async_extra_mib", None, MIB + 64),  # one snapshot
]


def torch_save(folder, tensors):
    count = (MIB << 20) // tensors // 4
    state = {"state": {"model": {f"layer{i}.weight": torch.full((count,), 0.5)
                                 for i in range(tensors)}}}
    path = os.path.join(folder, "torch_save.pt")
    times = []
    for _ in range(2):  # the first one warms up
        if os.path.exists(path):
            os.remove(path)
        os.sync()
        start = time.perf_counter()
        torch.save(state, path)
        times.append(time.perf_counter() - start)
    os.remove(path)
    return times[1]


def measure(program, folder, tensors, rounds):
    samples = {}
    for _ in range(rounds):
        samples.setdefault("torch.save", []).append(torch_save(folder, tensors))
        output = subprocess.run([program, folder, str(tensors), str(MIB), "1"], check=True,
                                capture_output=True, text=True).stdout
        for line in output.splitlines():
            name, amount = line.split()
            samples.setdefault(name, []).append(float(amount))
    return samples


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    missed = False
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else ".") as folder:
        for tensors in (256, 10_000):
            samples = measure(program, folder, tensors, rounds)
            print(f"\n{MIB} MiB in {tensors} tensors, torch {torch.__version__}, {rounds} rounds")
            for name, amounts in sorted(samples.items()):
                print(f"  {name:15} median {statistics.median(amounts):8.3f}"
                      f"   best {min(amounts):8.3f}")
            for name, base, limit in TARGETS:
                median = statistics.median(samples[name])
                best = min(samples[name])
                if base:
                    median /= statistics.median(samples[base])
                    best /= min(samples[base])
                missed |= median > limit
                what = f"{name} / {base}" if base else name
                print(f"  {what:28} median {median:7.3f}   best {best:7.3f}   target {limit}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
