#!/usr/bin/env python3
"""Writes TorchScript archives, and for them and for torchscript.pt what torch.jit.load finds in them:
NAME.tensors.json, with the names in the order of state_dict().

script_kinds.pt: attributes of many types. script_weights.pt: what is no weight, though a tensor (of
LSTM, plain attributes, constants), modules in lists and dicts, a tied one, weights that are None.
script_traced.pt: by torch.jit.trace. script_frozen.pt: by torch.jit.freeze.

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


class Part(torch.nn.Module):
    table: Dict[str, torch.Tensor]

    def __init__(self):
        super().__init__()
        self.plain = torch.zeros(3)  # before the weights: the order is not state_dict()'s
        self.register_buffer("kept", torch.ones(1))
        self.weight = torch.nn.Parameter(torch.randn(3))
        self.register_buffer("passing", torch.ones(1), persistent=False)
        self.table = {"x": torch.ones(2)}

    def forward(self, x):
        y = x * self.weight + self.kept + self.passing + self.plain
        return y + self.table["x"].sum() + torch.tensor([1.0, 2.0, 3.0])


class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(3, 2, num_layers=2)
        self.parts = torch.nn.ModuleList([Part(), Part()])
        self.by_name = torch.nn.ModuleDict({"1": Part()})
        self.tied = self.parts[0]
        self.norm = torch.nn.BatchNorm1d(2)
        self.own = torch.nn.Parameter(torch.ones(2))
        self.register_parameter("no_parameter", None)
        self.register_buffer("no_buffer", None)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.norm(self.rnn(self.tied(self.by_name["1"](x)))[0]) * self.own


class Traced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.LSTM(3, 3)
        self.second = torch.nn.LSTM(3, 3)  # of another class: another type of each
        self.part = Part()

    def forward(self, x):
        return self.part(self.second(self.first(x)[0])[0])


def main(folder):
    torch.manual_seed(4)
    weights = torch.jit.script(Weights())
    for name, module in (("kinds", torch.jit.script(Kinds())), ("weights", weights),
                         ("traced", torch.jit.trace(Traced(), torch.ones(2, 1, 3))),
                         ("frozen", torch.jit.freeze(torch.jit.script(Part().eval())))):
        torch.jit.save(module, str(pathlib.Path(folder, f"script_{name}.pt")))
    for name in ("script_kinds.pt", "script_weights.pt", "script_traced.pt", "torchscript.pt"):
        path = pathlib.Path(folder, name)
        state = torch.jit.load(str(path)).state_dict(keep_vars=True)
        found = {key: dict(describe(tensor.data), requires_grad=tensor.requires_grad)
                 for key, tensor in state.items()}
        path.with_name(name + ".tensors.json").write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
