#!/usr/bin/env python3
"""The tool for arm64 reads each golden file as the tool for this machine does.

    tools/run_arm64 tests/cli/arm64_test.py CAIRN CAIRN_FOR_ARM64 DATA

It also writes the same bytes: of each format that it converts to, and compressed.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

SUFFIXES = {".pt", ".pkl", ".safetensors", ".bin", ".ckpt", ".zst", ".gz", ".xz", ".lz4", ".bz2",
            ".tar"}
WRITTEN = ["out.pt", "out.safetensors", "out.pt.zst"]


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.returncode, done.stdout


def written(tool, path, name):
    """What a conversion gives: its code and the file."""
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, name)
        code, _ = run(tool, "convert", path, target)
        return code, pathlib.Path(target).read_bytes() if code == 0 else None


def problems_of(tools, path, converts):
    for command in (["dump"], ["inspect", "--json"], ["verify", "--json"]):
        here, there = (run(tool, *command, path) for tool in tools)
        if here != there:
            yield (f"cairn {' '.join(command)} {path}: {here[0]}, on arm64 {there[0]}\n"
                   f"{there[1][:500]}")
    for name in WRITTEN if converts else []:
        here, there = (written(tool, path, name) for tool in tools)
        if here != there:
            yield f"cairn convert {path} {name}: {here[0]}, on arm64 {there[0]}, or other bytes"


def main(here, there, data):
    paths = sorted(p for p in pathlib.Path(data).rglob("*") if p.suffix in SUFFIXES)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda p: list(problems_of((here, there), p, "torch-2" in str(p))),
                              paths))
    problems = [line for lines in found for line in lines]
    print(*problems, f"{len(paths)} files, {len(problems)} differences", sep="\n")
    return 1 if problems or len(paths) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
