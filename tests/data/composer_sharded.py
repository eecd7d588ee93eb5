"""Writes tests/data/composer-0.33/sharded: what Composer's own checkpoint after batch 3 of the run
adamw_cosine is when two ranks of FSDP2 save it with state_dict_type "sharded".

    python3 composer_sharded.py FILE OUT     # torch 2.6, as Composer 0.33; USE_LIBUV=0 in Debian's

As its dist_cp.save() does: parameters and their moments are cut by rows, all else is whole; the
planner writes what several ranks have from the lowest; rank 0 alone has the list of random states.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

RANKS = 2


def cut(state, mesh):
    optimizer = next(iter(state["optimizers"].values()))
    for name, moments in optimizer["state"].items():
        shape = state["model"][name].shape
        for of in (state["model"], moments):
            for key, value in list(of.items()):
                is_own = of is moments or key == name
                if is_own and torch.is_tensor(value) and value.shape == shape:
                    of[key] = distribute_tensor(value, mesh, [Shard(0)])


def save(rank, path, out, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    checkpoint = torch.load(path, weights_only=False)
    cut(checkpoint["state"], init_device_mesh("cpu", (RANKS,)))
    generator = torch.Generator()
    generator.manual_seed(1)
    own = dict(checkpoint["rng"][0], torch=generator.get_state())
    checkpoint["rng"] = [checkpoint["rng"][0], own]
    if rank != 0:
        del checkpoint["rng"]
    dcp.save(checkpoint, storage_writer=dcp.FileSystemWriter(out),
             planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True))
    dist.destroy_process_group()


if __name__ == "__main__":
    file, folder = sys.argv[1:]
    mp.spawn(save, (file, os.path.join(folder, "ep0-ba3"), os.path.join(folder, "store")),
             nprocs=RANKS)
    if os.path.exists(os.path.join(folder, "store")):
        os.remove(os.path.join(folder, "store"))
    os.symlink("ep0-ba3", os.path.join(folder, "latest-rank0.pt"))
