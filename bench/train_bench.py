#!/usr/bin/env python3
"""train_bench in turns with the same loop in Python's PyTorch, of the same BLAS and threads.

  bench/train_bench.py build/release/bin/train_bench [ROUNDS] [MODEL...]

Prints a table for AdamW and SGD with momentum: batches a second of the Trainer, and its speed as a
share of the hand-written libtorch loop's and of Python's; medians of the rounds. OMP_NUM_THREADS is
1 unless it is set.
"""
import math
import os
import re
import statistics
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  # reads the variable
from torch import nn  # noqa: E402

MODELS = ("perceptron", "layers", "transformer", "convolutions")


class Layer(nn.Module):
    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mixed = (scores + mask).softmax(-1) @ v
        h = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return h + self.down(nn.functional.gelu(self.up(self.norm2(h))))


class CharTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(65, 128)
        self.positions = nn.Parameter(torch.randn(64, 128) * 0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.head = nn.Linear(128, 65)
        self.register_buffer("mask", torch.full((64, 64), -1e9).triu(1))

    def forward(self, x):
        h = self.tokens(x) + self.positions
        for layer in self.layers:
            h = layer(h, self.mask)
        return self.head(h)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, before = [], 3
        for width in (32, 32, 32, 64, 64, 64, 128, 128, 128):
            stride = 2 if before not in (3, width) else 1
            layers += [nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
                       nn.ReLU()]
            before = width
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.layers(x).mean((2, 3)))


def perceptron(*widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def make(model):
    """The module, its samples and targets, the batch size, and the batches of a block."""
    if model == "perceptron":
        return (perceptron(64, 128, 10), torch.randn(1600, 64), torch.randint(10, (1600,)), 32, 500)
    if model == "layers":
        return (perceptron(256, 256, 256, 10), torch.randn(1600, 256), torch.randint(10, (1600,)),
                32, 200)
    if model == "transformer":
        text = torch.randint(65, (256, 65))
        return CharTransformer(), text[:, :-1].contiguous(), text[:, 1:].contiguous(), 8, 16
    return ConvNet(), torch.randn(256, 3, 32, 32), torch.randint(10, (256,)), 16, 8


class Loop:
    def __init__(self, model, optimizer):
        self.net, self.x, self.y, self.batch_size, self.batches = make(model)
        parameters = self.net.parameters()
        self.optimizer = (torch.optim.AdamW(parameters, lr=1e-3) if optimizer == "adamw"
                          else torch.optim.SGD(parameters, lr=1e-3, momentum=0.9))
        self.next = 0

    def train(self):
        """Batches a second."""
        begin = time.perf_counter()
        for _ in range(self.batches):
            first = self.next * self.batch_size % len(self.x)
            if first == 0:
                self.order = torch.randperm(len(self.x))
            self.next += 1
            rows = self.order[first:first + self.batch_size]
            self.optimizer.zero_grad()
            outputs = self.net(self.x[rows]).flatten(0, -2)
            nn.functional.cross_entropy(outputs, self.y[rows].flatten()).backward()
            self.optimizer.step()
        return self.batches / (time.perf_counter() - begin)


def compare(program, model, optimizer, rounds):
    loop = Loop(model, optimizer)
    loop.train()
    rates, by_hand, python = [], [], []
    for _ in range(rounds):
        said = subprocess.run([program, model, optimizer, "1"], check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        rate, ratio = map(float, re.search(r"Trainer ([\d.]+) .*speed: ([\d.]+)", said).groups())
        rates.append(rate)
        by_hand.append(ratio)
        python.append(rate / loop.train())
    print(f"| {model} | {optimizer} | {statistics.median(rates):.0f} | "
          f"{statistics.median(by_hand):.2f} | {statistics.median(python):.2f} |", flush=True)


def main():
    program, rounds, models = sys.argv[1], int((sys.argv + ["", "9"])[2] or 9), sys.argv[3:]
    print("| model | optimizer | Trainer, batches/s | / hand-written libtorch | / Python |\n"
          "|---|---|---|---|---|")
    for model in models or MODELS:
        for optimizer in ("adamw", "sgd"):
            compare(program, model, optimizer, rounds)


if __name__ == "__main__":
    main()
