#!/usr/bin/env python3
"""loader_bench in turns with Python's torch.utils.data.DataLoader, over the same samples.

  bench/loader_bench.py build/release/bin/loader_bench [ROUNDS] [DATASET...]

Prints a table: batches a second of cairn's loader, and its speed as a share of torch::data's and of
Python's with as many workers; medians of the rounds. Python's workers stay alive between epochs.
"""
import re
import statistics
import subprocess
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

SAMPLES, BATCH_SIZE, IMAGES, SIDE, MARGIN = 8192, 32, 256, 64, 8


class Images(Dataset):
    def __init__(self):
        self.pixels = torch.randint(256, (IMAGES, 3, SIDE + MARGIN, SIDE + MARGIN),
                                    dtype=torch.uint8)
        self.labels = torch.randint(10, (IMAGES,))
        self.mean, self.deviation = torch.full((3, 1, 1), 120.0), torch.full((3, 1, 1), 60.0)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        random = (index + 1) * 0x9E3779B97F4A7C15 >> 16
        top, left = random % (MARGIN + 1), (random >> 8) % (MARGIN + 1)
        image = self.pixels[index % IMAGES, :, top:top + SIDE, left:left + SIDE]
        if random >> 16 & 1:
            image = image.flip(2)
        return image.float().sub(self.mean).div(self.deviation), self.labels[index % IMAGES]


def dataset_of(name):
    if name == "rows":
        return TensorDataset(torch.randn(SAMPLES, 64), torch.randint(10, (SAMPLES,)))
    return Images()


def rate_of(loader):
    begin = time.perf_counter()
    batches = sum(1 for _ in loader)
    return batches / (time.perf_counter() - begin)


def compare(program, dataset, workers, rounds):
    loader = DataLoader(dataset_of(dataset), batch_size=BATCH_SIZE, shuffle=True,
                        num_workers=workers, persistent_workers=workers > 0)
    rate_of(loader)
    rates, torch_data, python = [], [], []
    for _ in range(rounds):
        said = subprocess.run([program, dataset, str(workers), "3"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        rate, ratio = map(float, re.search(r"cairn ([\d.]+) .*speed: ([\d.]+)", said).groups())
        rates.append(rate)
        torch_data.append(ratio)
        python.append(rate / rate_of(loader))
    print(f"| {dataset} | {workers} | {statistics.median(rates):.0f} | "
          f"{statistics.median(torch_data):.2f} | {statistics.median(python):.2f} |", flush=True)


def main():
    program, rounds, datasets = sys.argv[1], int((sys.argv + ["", "9"])[2] or 9), sys.argv[3:]
    print("| samples | workers | cairn, batches/s | / torch::data | / Python |\n"
          "|---|---|---|---|---|")
    for dataset in datasets or ("images", "rows"):
        for workers in (0, 1, 2, 4):
            compare(program, dataset, workers, rounds)


if __name__ == "__main__":
    main()
