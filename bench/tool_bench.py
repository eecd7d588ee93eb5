#!/usr/bin/env python3
"""The tool's times beside their targets.

  bench/tool_bench.py build/release/bin/cairn [FOLDER] [ROUNDS]

start      `cairn --version`
inspect    `cairn inspect` of a sparse .pt of 100 GB in 400 tensors: headers only
verify     `cairn verify --full` of a .pt of 2 GiB in one tensor, from the page cache, in GB/s, and
           beside `cp` of the same file

Needs Python alone, 5 GiB in FOLDER (a file system with sparse files) and as much page cache. Prints
medians and the best of all rounds, which is less wrong on a busy machine; the exit code is 1 when a
median misses its target.
"""
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

GIB = 1 << 30
ROOM = 0xFFFFFFFF  # "see the Zip64 field"


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def data_pkl(tensors, elements):
    """A dict of one-dimensional float32 tensors, as torch.save pickles it."""
    out = b"\x80\x02}("
    for i in range(tensors):
        storage = (b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(i)) +
                   text("cpu") + b"J" + struct.pack("<i", elements) + b"tQ")
        out += (text(f"layer{i}.weight") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
                b"K\0J" + struct.pack("<i", elements) + b"\x85K\1\x85\x89" +
                b"ccollections\nOrderedDict\n)RtR")
    return out + b"u."


def write_zip(path, records):
    """Stored records (name, crc, size, content or None for a hole), as PyTorch lays them out."""
    directory = b""
    with open(path, "wb") as file:
        for name, crc, size, pieces in records:
            name = ("archive/" + name).encode()
            header = file.tell()
            padding = -(header + 30 + len(name) + 20 + 4) % 64
            extra = struct.pack("<HHQQ", 1, 16, size, size) + struct.pack("<HH", 0x4246, padding)
            extra += b"Z" * padding
            file.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, crc, ROOM, ROOM,
                                   len(name), len(extra)) + name + extra)
            if pieces is None:
                file.seek(size, os.SEEK_CUR)
            else:
                for piece in pieces:
                    file.write(piece)
            extra = struct.pack("<HHQQQ", 1, 24, size, size, header)
            directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, crc,
                                     ROOM, ROOM, len(name), len(extra), 0, 0, 0, 0, ROOM)
            directory += name + extra
        start = file.tell()
        end = start + len(directory)
        count = len(records)
        file.write(directory)
        file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count,
                               len(directory), start))
        file.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
        file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, ROOM, ROOM, 0))


def write_torch_file(path, sizes, pieces, crc):
    pickle = data_pkl(len(sizes), sizes[0] // 4)
    records = [("data.pkl", zlib.crc32(pickle), len(pickle), [pickle])]
    records += [(f"data/{i}", crc, size, pieces) for i, size in enumerate(sizes)]
    records.append(("version", zlib.crc32(b"3\n"), 2, [b"3\n"]))
    write_zip(path, records)


def seconds(command, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return times


def write_full_file(path, size):
    block = os.urandom(64 << 20)
    crc = 0
    for _ in range(size // len(block)):
        crc = zlib.crc32(block, crc)
    write_torch_file(path, [size], [block] * (size // len(block)), crc)


def cp_seconds(path, copy, rounds):
    times = []
    for _ in range(rounds):
        if os.path.exists(copy):
            os.remove(copy)
        times += seconds(["cp", path, copy], 1)
    os.remove(copy)
    return times


def measure(tool, folder, rounds):
    """(what, median, best, relation, target)"""
    middle = statistics.median
    start = seconds([tool, "--version"], rounds)
    yield "start, ms", 1000 * middle(start), 1000 * min(start), "<", 10

    sparse = os.path.join(folder, "sparse.pt")
    write_torch_file(sparse, [250 << 20] * 400, None, 1)
    inspect = seconds([tool, "inspect", sparse], rounds)
    yield "inspect of 100 GB, ms", 1000 * middle(inspect), 1000 * min(inspect), "<", 20

    full = os.path.join(folder, "full.pt")
    write_full_file(full, 2 * GIB)
    command = [tool, "verify", "--quiet", "--full", full]
    seconds(command, 1)  # into the page cache
    verify = seconds(command, rounds)
    rate = 2 * GIB / 1e9
    yield "verify --full, GB/s", rate / middle(verify), rate / min(verify), ">", 3
    copy = cp_seconds(full, os.path.join(folder, "copy.pt"), rounds)
    yield "verify --full / cp", middle(verify) / middle(copy), min(verify) / min(copy), "<", 1.5


def main():
    tool = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    missed = False
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else ".") as folder:
        for what, median, best, relation, target in measure(tool, folder, rounds):
            good = median < target if relation == "<" else median > target
            missed |= not good
            print(f"{what:22} median {median:8.2f}   best {best:8.2f}   target {relation} {target}"
                  f"{'' if good else '   MISSED'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
