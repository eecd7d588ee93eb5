#!/usr/bin/env python3
"""cairn convert beside cp of the same bytes: ratio of times, and peak memory.

  bench/convert_bench.py build/release/bin/cairn [FOLDER] [MIB] [ROUNDS]

Converts a safetensors file of 64 tensors of random bytes to torch.save and back. Every time ends
with the bytes on the disk: cairn's do, cp is followed by sync. Best of the rounds. Needs no torch.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

TARGET_RATIO = 1.5
TARGET_MIB = 256
TENSORS = 64


def write_input(path, mib):
    size = (mib << 20) // TENSORS
    header = {f"layer{i}.weight": {"dtype": "F32", "shape": [size // 4],
                                   "data_offsets": [i * size, (i + 1) * size]}
              for i in range(TENSORS)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(TENSORS):
            file.write(os.urandom(size))


def run(command, output):
    """Seconds until `output` is on the disk, and the peak memory of the command in MiB.

    The input is in the page cache, for cp and for cairn: what cairn has written is not by itself.
    """
    with open(command[-2], "rb") as file:
        while file.read(1 << 24):
            pass
    if os.path.exists(output):
        os.remove(output)
    os.sync()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if command[0] == "cp":
        os.sync()
    seconds = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return seconds, usage.ru_maxrss / 1024


def main():
    cairn = sys.argv[1]
    mib = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else ".") as folder:
        path = lambda name: os.path.join(folder, name)
        write_input(path("in.safetensors"), mib)
        convert = [cairn, "convert", "--overwrite"]
        commands = {
            "cp": (["cp", path("in.safetensors"), path("copy")], path("copy")),
            "to torch.save": (convert + [path("in.safetensors"), path("out.pt")], path("out.pt")),
            "to safetensors": (convert + [path("out.pt"), path("out.safetensors")],
                               path("out.safetensors")),
            "unchecked": (convert + ["--quick", path("out.pt"), path("out.safetensors")],
                          path("out.safetensors")),
        }
        best = {}
        for _ in range(rounds):
            for name, (command, output) in commands.items():
                result = run(command, output)
                best[name] = min(best.get(name, result), result)
    print(f"{mib} MiB in {TENSORS} tensors, best of {rounds} rounds")
    missed = False
    for name, (seconds, peak) in best.items():
        ratio = seconds / best["cp"][0]
        missed |= name != "cp" and (ratio > TARGET_RATIO or peak > TARGET_MIB)
        print(f"  {name:15} {seconds:7.3f} s   {ratio:5.2f} x cp   {peak:6.0f} MiB")
    print(f"  targets: {TARGET_RATIO} x cp, {TARGET_MIB} MiB")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
