#!/usr/bin/env python3
"""Writes big_endian.pt, which torch.save would write on a big-endian machine, and its description:
what torch.load makes of it here.

usage: PYTHONPATH=tests/python write_big_endian.py OUT_FOLDER
"""
import json
import pathlib
import sys
import zipfile

import torch

from torch_file_test import describe

# By the order in which the storages are first used.
VALUE = {
    "float32": torch.arange(5, dtype=torch.float32),
    "int64": torch.tensor([[1, -2], [3, 2 ** 40]]),
    "complex64": torch.tensor([1 + 2j, -3.5 - 0j]),
    "bfloat16": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "uint8": torch.arange(3, dtype=torch.uint8),
}
PARTS = [4, 8, 4, 2, 1]  # bytes that are turned round together


def swapped(data, size):
    return b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))


def main(out):
    path = pathlib.Path(out, "big_endian.pt")
    torch.save(VALUE, "little.pt")
    with zipfile.ZipFile("little.pt") as little, zipfile.ZipFile(path, "w") as big:
        for name in little.namelist():
            data = little.read(name)
            record = name.split("/", 1)[1]
            if record == "byteorder":
                data = b"big"
            elif record.startswith("data/"):
                data = swapped(data, PARTS[int(record[5:])])
            if record not in (".format_version", ".storage_alignment", ".data/serialization_id"):
                big.writestr("archive/" + record, data)
    description = describe(torch.load(path))
    assert description == describe(VALUE)
    pathlib.Path(str(path) + ".json").write_text(
        json.dumps(description, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
