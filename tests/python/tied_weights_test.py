#!/usr/bin/python3
"""A model with tied weights goes from C++ to Python and back.

usage: tied_weights_test.py TIED_TRAINER

Exits with 77 (ctest: skipped) where python3-torch is not installed.
"""
import datetime
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("SKIPPED: python3-torch is not installed")
    sys.exit(77)

import check_checkpoint

PROGRAM = sys.argv[1]


class Net(torch.nn.Module):
    """The network of tied_trainer.cpp."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = self.first
        self.out = torch.nn.Linear(4, 4, bias=False)
        self.out.weight = self.first.weight

    def forward(self, x):
        return self.out(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Classifier(torch.nn.Module):
    """As Composer wraps it: names start with "module."."""

    def __init__(self):
        super().__init__()
        self.module = Net()


class Training:
    """What Composer's Trainer makes of the state of a checkpoint."""

    def __init__(self, state):
        self.model = Classifier()
        self.model.load_state_dict(state["model"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1)
        saved = state["optimizers"]["AdamW"]
        self.names = [name for name, _ in self.model.named_parameters()]
        assert [group["params"] for group in saved["param_groups"]] == [self.names]
        assert list(saved["state"]) == self.names
        self.optimizer.load_state_dict({
            "state": {i: saved["state"][name] for i, name in enumerate(self.names)},
            "param_groups": [{**saved["param_groups"][0], "params": [0, 1]}]})

    def step(self, batch):
        x = (torch.arange(32) % 7).view(8, 4)[2 * batch:2 * batch + 2] / 8.0
        y = (torch.arange(8) % 4)[2 * batch:2 * batch + 2]
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model.module(x), y).backward()
        self.optimizer.step()

    def optimizer_state(self, by_name):
        state = self.optimizer.state_dict()
        if by_name:
            state["state"] = {self.names[i]: entry for i, entry in state["state"].items()}
            state["param_groups"][0]["params"] = self.names
        return state


class TiedWeights(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = pathlib.Path(temp.name)
        self.train(self.folder / "straight")

    def train(self, folder, *checkpoint):
        subprocess.run([PROGRAM, folder, *checkpoint], check=True)

    def load(self, name, folder="straight"):
        return check_checkpoint.load(self.folder / folder / name)

    def assert_same_weights(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor)

    def test_the_file_has_each_name_and_each_optimizer_state_once(self):
        state = self.load("ba2.pt")["state"]
        self.assertEqual(list(state["model"]), list(Classifier().state_dict()))
        self.assertEqual(state["optimizers"]["AdamW"]["param_groups"][0]["params"],
                         ["module.first.weight", "module.first.bias"])

    def test_a_run_of_cpp_goes_on_in_python(self):
        training = Training(self.load("ba2.pt")["state"])
        training.step(2)
        training.step(3)
        self.assert_same_weights(training.model.state_dict(), self.load("ba4.pt")["state"]["model"])

    def test_a_run_of_python_goes_on_in_cpp(self):
        for by_name in (True, False):
            with self.subTest(by_name=by_name):
                checkpoint = self.load("ba2.pt")
                training = Training(checkpoint["state"])
                training.step(2)
                checkpoint["state"]["model"] = training.model.state_dict()
                checkpoint["state"]["optimizers"]["AdamW"] = training.optimizer_state(by_name)
                timestamp = checkpoint["state"]["timestamp"]["Timestamp"]
                for key in ("batch", "batch_in_epoch"):
                    timestamp[key] += 1
                for key in ("sample", "sample_in_epoch"):
                    timestamp[key] += 2
                timestamp["total_wct"] += datetime.timedelta(seconds=1)
                file = self.folder / f"python-{by_name}.pt"
                torch.save(checkpoint, file)
                self.train(self.folder / f"resumed-{by_name}", file)
                self.assert_same_weights(
                    self.load("ba4.pt", f"resumed-{by_name}")["state"]["model"],
                    self.load("ba4.pt")["state"]["model"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
