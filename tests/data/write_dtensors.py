#!/usr/bin/env python3
"""Writes torch.save files with DTensors, one a rank, and what their ranks hold together.

    python3 write_dtensors.py FOLDER        # PyTorch 2.6 or newer, four processes over loopback

NAME-rankR.pt is what rank R saves, NAME-full.pt the same dict with full tensors:

  fsdp2    FSDP2 over two ranks: uneven rows, a rank with nothing of a tensor, AdamW's state
  hsdp     a mesh of 2 x 2: copies over the first dimension, rows or columns over the second
  strided  FSDP2 over tensor parallelism: rows cut twice, rows and columns, one mesh dimension only
  partial  sums that no rank has added up yet (no full file)
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)


def full(tree):
    if isinstance(tree, DTensor):
        return tree.full_tensor().detach().clone()
    if isinstance(tree, dict):
        return type(tree)((key, full(value)) for key, value in tree.items())
    if isinstance(tree, (list, tuple)):
        return type(tree)(full(value) for value in tree)
    return tree


def save(folder, name, state, with_full=True):
    torch.save(state, f"{folder}/{name}-rank{dist.get_rank()}.pt")
    gathered = full(state) if with_full else None
    if with_full and dist.get_rank() == 0:
        torch.save(gathered, f"{folder}/{name}-full.pt")


def fsdp2(folder):
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 1))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    save(folder, "fsdp2", {"model": model.state_dict(), "optim": optimizer.state_dict(), "step": 1})


def hsdp(folder):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    numbers = torch.arange(15.0).view(5, 3)
    save(folder, "hsdp", {
        "rows": distribute_tensor(numbers, mesh, [Replicate(), Shard(0)]),
        "columns": distribute_tensor(numbers.double(), mesh, [Replicate(), Shard(1)]),
        "copies": distribute_tensor(numbers, mesh, [Replicate(), Replicate()]),
        "both": distribute_tensor(numbers, mesh, [Shard(0), Shard(1)]),
        "twice": distribute_tensor(torch.arange(7), mesh, [Shard(0), Shard(0)]),
        "one": distribute_tensor(torch.ones(1), mesh, [Shard(0), Shard(0)]),
        "nothing": distribute_tensor(torch.ones(0, 2), mesh, [Replicate(), Shard(0)]),
        "scalar": distribute_tensor(torch.tensor(3.0), mesh, [Replicate(), Replicate()]),
        "plain": torch.arange(3)})


def strided(folder):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4), nn.LayerNorm(4))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    save(folder, "strided", model.state_dict())


def partial(folder):
    mesh = init_device_mesh("cpu", (2,))
    save(folder, "partial", {"sum": DTensor.from_local(torch.ones(2, 2), mesh, [Partial()])},
         with_full=False)


def run(rank, size, start, case, folder):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{start}", rank=rank, world_size=size)
    torch.manual_seed(3)
    globals()[case](folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    for case, size in {"fsdp2": 2, "hsdp": 4, "strided": 4, "partial": 2}.items():
        with tempfile.TemporaryDirectory() as start:
            mp.spawn(run, args=(size, start + "/meet", case, sys.argv[1]), nprocs=size)
