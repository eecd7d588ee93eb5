#!/usr/bin/env python3
"""Writes script_kinds.pt, a TorchScript archive with attributes of many types, and for it and for
torchscript.pt what torch.jit.load finds in them: NAME.tensors.json.

usage: PYTHONPATH=tests/python write_script.py FOLDER
"""
import json
import pathlib
import sys
from typing import Dict, List, Optional, Tuple

import torch

from torch_file_test import describe


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 2))
        self.register_buffer("steps", torch.tensor(7))

    def forward(self, x):
        return x @ self.weight + self.steps


class Kinds(torch.nn.Module):
    names: List[str]
    table: Dict[str, torch.Tensor]
    sizes: List[int]
    rates: List[float]
    flags: List[bool]
    nothing: Optional[int]
    pair: Tuple[int, str]

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.tied = self.inner
        self.register_buffer("halves", torch.arange(6).half().reshape(2, 3).t())
        self.names = ["a", "b"]
        self.table = {"x": torch.ones(2), "y": torch.zeros(1, dtype=torch.int64)}
        self.sizes = [1, 2 ** 40]
        self.rates = [0.5]
        self.flags = [True, False]
        self.nothing = None
        self.pair = (3, "c")
        self.scale = 2.5

    def forward(self, x):
        # Long enough for its record to be compressed, with a tensor as a constant.
        y = x * self.scale + torch.tensor([1.0, 2.0])
        for size in self.sizes:
            if size > 3 and self.flags[0] and len(self.names) > 1 and self.nothing is None:
                y = y + self.table["x"].sum() * self.rates[0] + self.halves.sum() + self.pair[0]
        return self.inner(y)


def main(folder):
    torch.manual_seed(4)
    torch.jit.save(torch.jit.script(Kinds()), str(pathlib.Path(folder, "script_kinds.pt")))
    for name in ("script_kinds.pt", "torchscript.pt"):
        path = pathlib.Path(folder, name)
        state = torch.jit.load(str(path)).state_dict(keep_vars=True)
        found = {key: dict(describe(tensor.data), requires_grad=tensor.requires_grad)
                 for key, tensor in state.items()}
        path.with_name(name + ".tensors.json").write_text(
            json.dumps(found, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
