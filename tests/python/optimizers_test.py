#!/usr/bin/python3
"""Python's optimizers take over what cairn's wrote, and take the steps that they would have taken.

usage: optimizers_test.py OPTIMIZER_FILES DATA_FOLDER

Exits with 77 (ctest: skipped) where python3-torch is not installed.
"""
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

PROGRAM, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(DATA))
import write_optimizers  # noqa: E402

STEPS = DATA / "torch-1.13" / "optimizer_steps.pt"


class Lion(torch.optim.Optimizer):
    """As its users write it."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                m = state["exp_avg"]
                p.add_(torch.sign(m.lerp(p.grad, 1 - beta1)), alpha=-group["lr"])
                m.lerp_(p.grad, 1 - beta2)


def by_number(state, names):
    """What Composer makes of a state whose parameters have names."""
    return {"state": {names.index(name): entry for name, entry in state["state"].items()},
            "param_groups": [{**group, "params": [names.index(name) for name in group["params"]]}
                             for group in state["param_groups"]]}


def steps(optimizer, parameters, case, first):
    """Takes the steps from `first` on; yields the weights after each."""
    for k in range(first, write_optimizers.STEPS):
        def closure():
            optimizer.zero_grad()
            value = write_optimizers.loss(parameters)
            value.backward()
            return value
        if not case["gradients"]:
            optimizer.step(closure)
        else:
            for parameter, gradient in zip(parameters, case["gradients"][k]):
                parameter.grad = (write_optimizers.sparse(gradient)
                                  if isinstance(gradient, dict) else gradient)
            optimizer.step()
        yield [p.detach().clone() for p in parameters]


class Optimizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.folder = pathlib.Path(temp.name)
        subprocess.run([PROGRAM, STEPS, cls.folder], check=True)
        cls.cases = torch.load(STEPS)

    def taken_over(self, name, cls):
        """A fresh optimizer of Python's, with other options, that loaded the file."""
        file = torch.load(self.folder / f"{name}.pt")
        parameters = [w.requires_grad_() for w in file["model"].values()]
        optimizer = cls(parameters, lr=0.123)
        optimizer.load_state_dict(by_number(file["optimizer"], list(file["model"])))
        return optimizer, parameters

    def assert_weights(self, found, expected):
        for a, b in zip(found, expected):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)

    def test_every_optimizer_goes_on_in_python(self):
        files = sorted(self.folder.glob("*.pt"))
        self.assertEqual({f.stem for f in files} - {"Lion"}, set(self.cases))
        for name, case in self.cases.items():
            with self.subTest(name):
                cls = write_optimizers.class_of(case["class"])
                optimizer, parameters = self.taken_over(name, cls)
                self.assert_weights(parameters, case["weights"][2])
                for k, weights in enumerate(steps(optimizer, parameters, case, 3), 3):
                    self.assert_weights(weights, case["weights"][k])

    def test_numbers_are_of_pythons_types(self):
        """Python's default weight_decay=0 is an int, and stays one."""
        for name, case in self.cases.items():
            with self.subTest(name):
                found = torch.load(self.folder / f"{name}.pt")["optimizer"]["param_groups"][0]
                for key, value in case["state_dict"][1]["param_groups"][0].items():
                    if key not in ("params", "fused"):
                        self.assertEqual(repr(found[key]), repr(value), key)

    def test_an_own_optimizer_goes_on_in_python(self):
        case = self.cases["Adam"]
        start = [w.clone().requires_grad_() for w in case["start"]]
        straight = list(steps(Lion(start, lr=0.1, weight_decay=0.1), start, case, 0))
        optimizer, parameters = self.taken_over("Lion", Lion)
        self.assert_weights(parameters, straight[2])
        self.assertEqual(set(optimizer.state[parameters[0]]), {"exp_avg"})
        for k, weights in enumerate(steps(optimizer, parameters, case, 3), 3):
            self.assert_weights(weights, straight[k])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
