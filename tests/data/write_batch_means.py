#!/usr/bin/python3
"""Writes batch_means.pt of composer-0.33/ and composer-releases/: the part of the first layer's
batch means that rounding does not decide.

The bias in front of the BatchNorm has a gradient that is zero but for rounding, and Adam divides it
by its own size: where the bias goes is decided by the BLAS, and the running mean goes with it. But
a batch's mean is `bias + weight @ (mean of the batch's x)`, so what the running mean took in at a
batch, less the bias of that batch, is defined. Composer saved the bias after some batches only;
here PyTorch goes on from Composer's first checkpoint of each run, and must arrive at Composer's
losses, weights and running means.

    {run: float32 tensor of [batch - 3, feature]}, of releases {release: {run: tensor}}

Written with python3-torch 1.13:  cd tests/data && ./write_batch_means.py
"""
import json
import math
import os
import sys
import types

import numpy
import torch

FIRST, LAST, PER_EPOCH, BATCH_SIZE = 3, 15, 5, 8
MOMENTUM = 0.1  # of the BatchNorm
NEAR = 1e-5
RUNS = ["adamw_cosine", "sgdw_linear", "adam_steplr", "ema"]
RELEASES = ["v0.7.1", "v0.10.1", "v0.13.5", "v0.17.2", "v0.25.0"]


def load(path):
    return torch.load(path)["state"]


def stand_in_for_missing_modules():
    """Composer's own classes and torchmetrics's are only names here."""

    class Named(type):
        def __getattr__(cls, name):  # the members of enumerations
            if name.startswith("__"):
                raise AttributeError(name)
            return Nothing()

    class Nothing(metaclass=Named):
        def __init__(self, *args, **kwargs):
            pass

        def __setstate__(self, state):
            pass

    class Finder:
        def find_module(self, name, path=None):
            return self if name.split(".")[0] in ("torchmetrics", "composer") else None

        def load_module(self, name):
            module = types.ModuleType(name)
            module.__path__ = []
            module.__getattr__ = lambda attribute: Named(attribute, (Nothing,), {})
            return sys.modules.setdefault(name, module)

    sys.meta_path.append(Finder())
    sys.modules["numpy._core"] = numpy.core
    sys.modules["numpy._core.multiarray"] = numpy.core.multiarray


def factor(run, batch):
    """What the run's scheduler multiplies the learning rate with, at this time."""
    if run == "adam_steplr":
        return 0.5**batch
    if run == "adamw_cosine":
        if batch < 3:
            return batch / 3
        return (1 + math.cos(math.pi * (batch - 3) / (LAST - 3))) / 2
    return 1 - batch / LAST


class Run:
    """One of Composer's runs, from its checkpoint after batch 3."""

    def __init__(self, folder, run, data, seed, scheduler_is_late):
        self.folder, self.run, self.seed, self.late = f"{folder}/{run}/", run, seed, scheduler_is_late
        self.x, self.y = data["x"][:40], data["y"][:40]
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16),
                                       torch.nn.ReLU(), torch.nn.Linear(16, 4))
        self.batch = FIRST
        state = load(f"{self.folder}ep0-ba3-rank0.pt")
        self.net.load_state_dict(self.weights_of(state))
        self.decay = 1e-4 if run in ("adamw_cosine", "sgdw_linear") else 0
        self.optimizer = self.make_optimizer()
        self.load_optimizer(next(iter(dict(state["optimizers"]).values()))["state"])

    def weights_of(self, state):
        """The weights that are trained: while EMA's average is in the model they wait in EMA. (0.7 never
        saved the average as the model.)"""
        weights = {name.replace("module.", ""): value for name, value in state["model"].items()}
        ema = dict(state["algorithms"]).get("EMA", {})
        if ema.get("ema_weights_active"):
            waiting = {"": ema["training_model"]} if "training_model" in ema else ema["ema_model"]
            for part in waiting.values():
                weights.update((name.replace("module.", ""), value) for name, value in part.items())
        return weights

    def make_optimizer(self):
        parameters = self.net.parameters()
        if self.run == "adamw_cosine":
            return torch.optim.Adam(parameters, lr=0.02, betas=(0.9, 0.95))
        if self.run == "sgdw_linear":
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True)
        if self.run == "adam_steplr":
            return torch.optim.Adam(parameters, lr=0.01)
        return torch.optim.AdamW(parameters, lr=0.01)

    def load_optimizer(self, state):
        by_index = list(state) == list(range(6))
        for index, (name, parameter) in enumerate(self.net.named_parameters()):
            own = dict(state[index if by_index else "module." + name])
            if "step" in own:
                own["step"] = torch.as_tensor(float(own["step"]))
            self.optimizer.state[parameter] = {
                key: value.clone() if torch.is_tensor(value) else value
                for key, value in own.items()
            }

    def rate_factor(self):
        # Composer's schedulers step before the time advances, those before 0.10 after it.
        is_behind = self.run != "adam_steplr" and not self.late
        return factor(self.run, self.batch - 1 if is_behind else self.batch)

    def loss(self, x, y):
        if self.run == "sgdw_linear":
            return torch.nn.functional.cross_entropy(self.net(x), y, label_smoothing=0.1)
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def train_batch(self):
        """The loss, and the batch's mean less the bias."""
        epoch, batch_in_epoch = divmod(self.batch, PER_EPOCH)
        order = torch.randperm(40, generator=torch.Generator().manual_seed(self.seed + epoch))
        rows = order[batch_in_epoch * BATCH_SIZE:][:BATCH_SIZE]
        bias, mean = self.net[0].bias.detach().double(), self.net[1].running_mean.double()
        self.optimizer.zero_grad()
        loss = self.loss(self.x[rows], self.y[rows])
        taken_in = (self.net[1].running_mean.double() - (1 - MOMENTUM) * mean) / MOMENTUM
        loss.backward()
        if self.run == "adamw_cosine":
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.step()
        self.batch += 1
        return loss.item(), taken_in - bias

    def step(self):
        for group in self.optimizer.param_groups:
            group["lr"] = group.get("initial_lr", group["lr"])
            group["initial_lr"] = group["lr"]
            group["lr"] *= self.rate_factor()
        with torch.no_grad():  # "decoupled": the decay follows the scheduler, not the learning rate
            for parameter in self.net.parameters():
                parameter.mul_(1 - self.rate_factor() * self.decay)
        self.optimizer.step()

    def expect_composers(self, checkpoint):
        """All weights that are defined, and the bias and mean where they are (without Adam)."""
        path = f"{self.folder}{checkpoint}-rank0.pt"
        if os.path.exists(path):
            expected = self.weights_of(load(path))
        elif self.batch == LAST and self.run != "ema":  # whose final weights are the averages
            weights = torch.load(f"{self.folder}final_weights.pt")
            expected = {name.replace("module.", ""): value for name, value in weights.items()}
        else:
            return
        for name, value in expected.items():
            if self.run == "sgdw_linear" or name not in ("0.bias", "1.running_mean"):
                assert torch.allclose(self.net.state_dict()[name], value, atol=NEAR, rtol=0), name

    def expect_composers_mean(self, means):
        """Batches 3 and 4 from Composer's files alone: its bias after batch 3 is that of the file,
        and Adam's state after batch 4 says by how much batch 4 had moved it."""
        if self.run == "sgdw_linear" or not os.path.exists(f"{self.folder}ep0-ba5-rank0.pt"):
            return
        before, after = load(f"{self.folder}ep0-ba3-rank0.pt"), load(f"{self.folder}ep0-ba5-rank0.pt")
        optimizer = next(iter(dict(after["optimizers"]).values()))
        group = optimizer["param_groups"][0]
        own = optimizer["state"].get("module.0.bias") or optimizer["state"][1]
        lr = group.get("initial_lr", group["lr"])
        self.batch, rate = 4, 0
        rate = self.rate_factor() * {"adamw_cosine": 0.02}.get(self.run, 0.01)
        self.batch = LAST
        first, second = (1 - beta**5 for beta in group["betas"])
        moved = rate * (own["exp_avg"].double() / first) / (
            (own["exp_avg_sq"].double() / second).sqrt() + group["eps"])
        biases = [self.weights_of(before)["0.bias"].double(), None]
        end = self.weights_of(after)
        biases[1] = (end["0.bias"].double() + moved) / (1 - rate * (0.01 if self.run == "ema" else 0))
        mean = self.weights_of(before)["1.running_mean"].double()
        for bias, of_batch in zip(biases, means):
            mean = (1 - MOMENTUM) * mean + MOMENTUM * (of_batch + bias)
        assert lr and torch.allclose(mean, end["1.running_mean"].double(), atol=NEAR, rtol=0), (
            mean - end["1.running_mean"])
        print("  the running mean of Composer's file:",
              (mean - end["1.running_mean"]).abs().max().item())

    def to_the_end(self):
        print(self.folder)
        recorded = []
        if os.path.exists(self.folder + "run.json"):
            with open(self.folder + "run.json") as file:
                recorded = json.load(file)["losses"]
        means = []
        while self.batch < LAST:
            loss, mean = self.train_batch()
            means.append(mean)
            if recorded:
                assert abs(loss - recorded[self.batch - 1]) < NEAR, (self.batch, loss)
            checkpoint = {5: "ep0-ba5", 8: "ep1-ba8", 15: "ep2-ba15"}.get(self.batch)
            if checkpoint:
                self.expect_composers(checkpoint)
        self.expect_composers_mean(means)
        return torch.stack(means).float()


def main():
    stand_in_for_missing_modules()
    torch.set_num_threads(1)
    data = torch.load("composer-0.33/data.pt")
    torch.save({run: Run("composer-0.33", run, data, 1, False).to_the_end() for run in RUNS},
               "composer-0.33/batch_means.pt")
    data = torch.load("composer-releases/data.pt")
    torch.save({release: {run: Run(f"composer-releases/{release}", run, data, 5,
                                   release == "v0.7.1").to_the_end() for run in RUNS}
                for release in RELEASES}, "composer-releases/batch_means.pt")


main()
