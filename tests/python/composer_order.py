"""A training run that draws random numbers where Composer 0.33 draws them, with real PyTorch.

Composer itself is not needed: what matters here is the order in which its Trainer iterates loaders,
saves and restores generators (composer/trainer/trainer.py: _spin_dataloaders_to_cur_epoch,
_train_loop, _eval_loop; composer/utils/reproducibility.py), and the layout of its checkpoints.
"""
import collections
import datetime
import random

import numpy
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

COUNTERS = ["iteration", "epoch", "batch", "sample", "token", "epoch_in_iteration",
            "token_in_iteration", "batch_in_epoch", "sample_in_epoch", "token_in_epoch"]
CLOCKS = ["total_wct", "iteration_wct", "epoch_wct", "batch_wct"]
EPOCHS = 3
BATCH_SIZE = 8


def make_net():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5),
                               torch.nn.Linear(16, 4))


class Run:
    def __init__(self, data):
        """`data`: x, y, weights, seed, sampler_seed."""
        self.model = torch.nn.Module()  # a ComposerClassifier: its names begin with "module."
        self.model.module = make_net()
        self.model.module.load_state_dict(
            {name.split(".", 1)[1]: tensor for name, tensor in data["weights"].items()})
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        samples = TensorDataset(data["x"], data["y"])
        self.sampler = DistributedSampler(samples, num_replicas=1, rank=0, shuffle=True,
                                          seed=data["sampler_seed"])
        self.loader = DataLoader(samples, batch_size=BATCH_SIZE, sampler=self.sampler)
        # (due after this batch count or None for the end of an epoch, loader)
        self.evaluators = [(None, DataLoader(samples, batch_size=20)),
                           (2, DataLoader(samples, batch_size=20))]
        self.time = dict.fromkeys(COUNTERS, 0)
        self.seed = data["seed"]
        self.rng = None  # of a loaded checkpoint, not restored yet
        self.losses = {}
        random.seed(self.seed)
        numpy.random.seed(self.seed)
        torch.manual_seed(self.seed)

    # --- Checkpoints -----------------------------------------------------------------------------

    def names(self):
        return [name for name, _ in self.model.named_parameters()]

    def checkpoint(self):
        names = self.names()
        packed = self.optimizer.state_dict()
        optimizer = {
            "state": {names[i]: entries for i, entries in packed["state"].items()},
            "param_groups": [dict(group, params=[names[i] for i in group["params"]])
                             for group in packed["param_groups"]]}
        timestamp = dict(self.time, **dict.fromkeys(CLOCKS, datetime.timedelta()))
        return {
            "state": {
                "model": collections.OrderedDict(self.model.state_dict()),
                "optimizers": {"Adam": optimizer}, "schedulers": {}, "algorithms": [],
                "callbacks": {}, "scaler": {}, "timestamp": {"Timestamp": timestamp},
                "rank_zero_seed": self.seed, "run_name": "dropout",
                "dataset_state": {"train": None, "eval": {}}, "integrations": {}, "metadata": {}},
            "rng": [{"python": random.getstate(), "numpy": numpy.random.get_state(),
                     "torch": torch.get_rng_state()}]}

    def load(self, checkpoint):
        state = checkpoint["state"]
        self.model.load_state_dict(state["model"], strict=True)
        saved = state["optimizers"]["Adam"]
        names = self.names()
        (group,) = saved["param_groups"]
        self.optimizer.load_state_dict({
            "state": {i: saved["state"][name] for i, name in enumerate(names)},
            "param_groups": [dict(group, params=[names.index(name) for name in group["params"]])]})
        timestamp = state["timestamp"]["Timestamp"]
        self.time = {key: timestamp[key] for key in COUNTERS}
        self.rng = checkpoint["rng"][0]
        self.seed = state["rank_zero_seed"]
        torch.manual_seed(self.seed)

    def restore_rng(self):
        if self.rng is None:
            return
        torch.set_rng_state(self.rng["torch"])
        random.setstate(self.rng["python"])
        numpy.random.set_state(self.rng["numpy"])
        self.rng = None

    # --- The loops -------------------------------------------------------------------------------

    def fit(self, after_batch):
        """Trains to the end; calls after_batch(self) where Composer saves."""
        self.spin_dataloaders()
        if self.time["batch_in_epoch"] == 0:
            self.restore_rng()
        self.model.train()
        while self.time["epoch"] < EPOCHS:
            self.sampler.set_epoch(self.time["epoch"])
            for index, batch in enumerate(self.loader):
                if index < self.time["batch_in_epoch"]:
                    if index + 1 == self.time["batch_in_epoch"]:
                        self.restore_rng()
                    continue
                self.train_batch(batch)
                self.evaluate(self.time["batch"])
                after_batch(self)
            self.time["epoch"] += 1
            self.time["epoch_in_iteration"] += 1
            self.time["batch_in_epoch"] = self.time["sample_in_epoch"] = 0
            self.evaluate(None)

    def spin_dataloaders(self):
        for _, loader in self.evaluators:
            for _ in loader:
                break
        for epoch in range(self.time["epoch"]):
            self.sampler.set_epoch(epoch)
            for _ in self.loader:
                break

    def train_batch(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model.module(x), y)
        loss.backward()
        self.optimizer.step()
        for key in "batch", "batch_in_epoch":
            self.time[key] += 1
        for key in "sample", "sample_in_epoch":
            self.time[key] += len(y)
        self.losses[self.time["batch"]] = loss.item()

    def evaluate(self, batch):
        for interval, loader in self.evaluators:
            is_due = interval is None if batch is None else interval and batch % interval == 0
            if not is_due:
                continue
            self.model.eval()
            with torch.no_grad():
                for x, _ in loader:
                    self.model.module(x)
            self.model.train()
