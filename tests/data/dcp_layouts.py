"""Writes tests/data/torch-X/dcp-layouts: a torch.distributed.checkpoint folder in which tensors are
cut in every way that DTensor cuts them, its description, and the same with use_collectives=False;
and torch-X/dcp.safetensors, the tensors alone as each rank writes them for Hugging Face.

    python3 dcp_layouts.py OUT          # torch 2.6 or 2.14; USE_LIBUV=0 where libuv is missing
"""
import hashlib
import inspect
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

RANKS = 4
# Its writer fails with them: safetensors wants contiguous tensors.
NO_HUGGING_FACE = {"plain"}


def numbers(*shape, dtype=torch.float32):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) % 120).to(dtype).reshape(shape)


def state(line, grid):
    return {
        "row": distribute_tensor(numbers(8, 6), line, [Shard(0)]),
        "column": distribute_tensor(numbers(6, 8, dtype=torch.int32), line, [Shard(1)]),
        "uneven": distribute_tensor(numbers(5, 3, dtype=torch.int64), line, [Shard(0)]),
        "few_rows": distribute_tensor(numbers(2, 4, dtype=torch.float64), line, [Shard(0)]),
        "one": distribute_tensor(numbers(1), line, [Shard(0)]),
        "none": distribute_tensor(numbers(0, 4), line, [Shard(0)]),
        "grid": distribute_tensor(numbers(7, 5), grid, [Shard(0), Shard(1)]),
        "grid_3d": distribute_tensor(numbers(3, 4, 5, dtype=torch.uint8), grid, [Shard(2), Shard(1)]),
        "twice": distribute_tensor(numbers(9, 2), grid, [Shard(0), Shard(0)]),
        "half": distribute_tensor(numbers(4, 4, dtype=torch.float64), grid, [Replicate(), Shard(1)]),
        "replicated": distribute_tensor(numbers(3, 3), line, [Replicate()]),
        "plain": numbers(2, 3).t(),
        "scalar": torch.tensor(2.5),
        "nested": {1: {"a.b": numbers(2)}, "empty": {}, "list": [1, {"x": numbers(3)}, "two"]},
        "objects": {"tuple": (1, 2.5, None), "numbers": [1, 2, 3], "text": "zeichen äß"},
    }


def work(rank, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", USE_LIBUV="0")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    tree = state(init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (2, 2)))
    dcp.save(tree, checkpoint_id=out + "/dcp-layouts")
    if "use_collectives" in inspect.signature(dcp.save).parameters:
        dcp.save(tree, checkpoint_id=out + "/dcp-per-rank", use_collectives=False)
    if hasattr(dcp, "HuggingFaceStorageWriter"):
        tensors = {name: value for name, value in tree.items()
                   if isinstance(value, torch.Tensor) and name not in NO_HUGGING_FACE}
        writer = dcp.HuggingFaceStorageWriter(out + "/dcp.safetensors", save_distributed=True)
        dcp.save(tensors, storage_writer=writer)
        whole = {name: value.full_tensor() if hasattr(value, "full_tensor") else value.contiguous()
                 for name, value in tensors.items()}
        if rank == 0:
            write_description(out + "/dcp.safetensors", whole)
    dist.destroy_process_group()


def describe(value):
    if isinstance(value, torch.Tensor):
        data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return {"type": "tensor", "dtype": str(value.dtype)[6:], "shape": list(value.shape),
                "stride": list(value.stride()), "requires_grad": value.requires_grad,
                "sha256": hashlib.sha256(data).hexdigest()}
    if isinstance(value, dict):
        return {"type": "dict", "items": [[describe(k), describe(v)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"type": type(value).__name__, "items": [describe(v) for v in value]}
    if value is None:
        return {"type": "None"}
    if isinstance(value, float):
        return {"type": "float", "hex": value.hex()}
    return {"type": type(value).__name__, "value": str(value)}


def write_description(path, value):
    with open(path + ".json", "w") as file:
        json.dump(describe(value), file, indent=0, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    out = sys.argv[1]
    mp.spawn(work, args=(out,), nprocs=RANKS)
    dcp_to_torch_save(out + "/dcp-layouts", "/tmp/full.pt")
    write_description(out + "/dcp-layouts", torch.load("/tmp/full.pt", weights_only=False))
