#!/usr/bin/python3
"""Writes sampler/distributed_sampler.json: indices of torch.utils.data.DistributedSampler.

    tests/data/write_distributed_sampler.py FILE
"""
import json
import sys

import torch
from torch.utils.data import DistributedSampler


class Sized:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


def cases():
    for size in (1, 2, 3, 10, 17):
        for replicas in (1, 2, 3, 4):
            for drop_last in (False, True):
                if drop_last and size < replicas:
                    continue  # no samples at all
                for shuffle, seed, epoch in ((False, 0, 0), (True, 0, 0), (True, 5, 3)):
                    yield size, replicas, drop_last, shuffle, seed, epoch


def main():
    found = []
    for size, replicas, drop_last, shuffle, seed, epoch in cases():
        for rank in range(replicas):
            sampler = DistributedSampler(Sized(size), replicas, rank, shuffle, seed, drop_last)
            sampler.set_epoch(epoch)
            found.append({"size": size, "num_replicas": replicas, "rank": rank, "shuffle": shuffle,
                          "seed": seed, "drop_last": drop_last, "epoch": epoch,
                          "indices": list(sampler)})
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in found) + "\n]\n")
    print(f"{len(found)} cases of torch {torch.__version__}")


main()
