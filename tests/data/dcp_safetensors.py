"""Writes what torch.distributed.checkpoint stores as safetensors, other than a shard per rank
(dcp_layouts.py), into torch-2.14/, with their descriptions:

    hf-plain.safetensors/         HuggingFaceStorageWriter(path) of one process: a file, its index
    hf-two-files.safetensors/     the same with fqn_to_index_mapping: two files and their index
    hf-consolidated.safetensors/  two ranks, save_distributed and enable_consolidation: the whole
                                  tensors, their index, and in sharded/ each rank's parts
    dcp-as-safetensors/           FileSystemWriter with SerializationFormat.SAFETENSORS, two ranks
    dcp-zstd-safetensors/         the same of one process, with the zstd extension

    python3 dcp_safetensors.py OUT          # torch 2.14, zstandard; USE_LIBUV=0 where libuv is missing
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.filesystem import SerializationFormat
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from dcp_layouts import numbers, write_description

RANKS = 2


def whole():
    return {"embed.weight": numbers(5, 3), "head.bias": numbers(4, dtype=torch.bfloat16),
            "head.steps": torch.tensor(7), "none": numbers(0, 2)}


def alone(out):
    dcp.save(whole(), storage_writer=dcp.HuggingFaceStorageWriter(out + "/hf-plain.safetensors"), no_dist=True)
    write_description(out + "/hf-plain.safetensors", whole())
    files = {"embed.weight": 1, "head.bias": 2, "head.steps": 2, "none": 1}
    writer = dcp.HuggingFaceStorageWriter(out + "/hf-two-files.safetensors", fqn_to_index_mapping=files)
    dcp.save(whole(), storage_writer=writer, no_dist=True)
    write_description(out + "/hf-two-files.safetensors", whole())
    tree = whole() | {"steps": 12}
    writer = dcp.FileSystemWriter(out + "/dcp-zstd-safetensors", _extensions=[ZStandard()],
                                  serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save(tree, storage_writer=writer, no_dist=True)
    write_description(out + "/dcp-zstd-safetensors", tree)


def work(rank, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512", USE_LIBUV="0")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    line = init_device_mesh("cpu", (RANKS,))
    cut = {"row": distribute_tensor(numbers(5, 3), line, [Shard(0)]),
           "column": distribute_tensor(numbers(2, 4, dtype=torch.float64), line, [Shard(1)]),
           "one": distribute_tensor(numbers(1), line, [Shard(0)])}
    writer = dcp.HuggingFaceStorageWriter(out + "/hf-consolidated.safetensors", save_distributed=True,
                                          enable_consolidation=True)
    dcp.save(cut, storage_writer=writer)
    tree = {"model": cut, "plain": numbers(3), "scalar": torch.tensor(2.5), "steps": 12,
            "objects": {"tuple": (1, 2.5, None), "text": "zeichen äß"}}
    writer = dcp.FileSystemWriter(out + "/dcp-as-safetensors",
                                  serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save(tree, storage_writer=writer)
    cut = {name: tensor.full_tensor() for name, tensor in cut.items()}
    if rank == 0:
        write_description(out + "/hf-consolidated.safetensors", cut)
        write_description(out + "/dcp-as-safetensors", tree | {"model": cut})
    dist.destroy_process_group()


if __name__ == "__main__":
    alone(sys.argv[1])
    mp.spawn(work, args=(sys.argv[1],), nprocs=RANKS)
