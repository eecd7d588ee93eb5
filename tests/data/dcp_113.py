"""Writes tests/data/torch-1.13/dcp: what PyTorch 1.13 saves of one rank. It does not flatten: a
nested dict is one object.

    python3 dcp_113.py OUT
"""
import dataclasses
import sys

import torch

# Python 3.11 refuses a default of a class without a hash, which this PyTorch has; give it one.
plain = dataclasses.dataclass


def hashed(cls=None, **options):
    if cls is None:
        return lambda decorated: hashed(decorated, **options)
    return plain(cls, **{"unsafe_hash": "__hash__" not in vars(cls), **options})


dataclasses.dataclass = hashed
from torch.distributed._shard import checkpoint

state = {
    "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "half": torch.arange(6, dtype=torch.float16).reshape(2, 3).t(),
    "scalar": torch.tensor(7),
    "model": {"0.weight": torch.arange(4.0), "step": 3},
    "text": "hello",
}
checkpoint.save_state_dict(state, checkpoint.FileSystemWriter(sys.argv[1] + "/dcp"), no_dist=True)
