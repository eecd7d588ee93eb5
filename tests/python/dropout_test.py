#!/usr/bin/python3
"""Dropout draws the same numbers in cairn as in Python, over three epochs with evaluations between.

usage: dropout_test.py DROPOUT_RUN

Every run, fresh or continued from any batch by the other side, has the losses and the final weights
of the run that Python made without a stop. Exits with 77 (ctest: skipped) without python3-torch.
"""
import json
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

import composer_order

PROGRAM = sys.argv[1]
BATCHES = 15
TOLERANCE = 1e-5


class Dropout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        torch.manual_seed(3)
        net = composer_order.make_net()
        cls.data = {"x": torch.randn(40, 8), "y": torch.randint(4, (40,)), "seed": 17,
                    "sampler_seed": 5,
                    "weights": {"module." + k: v.clone() for k, v in net.state_dict().items()}}
        torch.save(cls.data, cls.folder / "data.pt")
        (cls.folder / "python").mkdir()
        cls.whole = composer_order.Run(cls.data)

        def save(run):
            torch.save(run.checkpoint(), cls.file("python", run.time["batch"]))
        cls.whole.fit(save)
        cls.cairn_losses, cls.cairn_weights = cls.cairn("cairn")

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    @classmethod
    def file(cls, folder, batch):
        return cls.folder / folder / f"ba{batch}.pt"

    @classmethod
    def cairn(cls, name, *checkpoint):
        """Losses and weights of a run of cairn, whose files are in the folder `name`."""
        folder = cls.folder / name
        folder.mkdir()
        subprocess.run([PROGRAM, cls.folder / "data.pt", folder, *checkpoint], check=True)
        losses = json.loads((folder / "losses.json").read_text())
        return {int(batch): loss for batch, loss in losses.items()}, torch.load(folder / "final.pt")

    def python(self, checkpoint):
        run = composer_order.Run(self.data)
        run.load(torch.load(checkpoint))
        run.fit(lambda _: None)
        return run.losses, run.model.state_dict()

    def expect_whole(self, result, after=0):
        losses, weights = result
        self.assertEqual(sorted(losses), list(range(after + 1, BATCHES + 1)))
        for batch, loss in losses.items():
            self.assertAlmostEqual(loss, self.whole.losses[batch], delta=TOLERANCE,
                                   msg=f"loss of batch {batch}")
        for name, expected in self.whole.model.state_dict().items():
            self.assertLess((weights[name] - expected).abs().max().item(), TOLERANCE, name)

    def test_run_of_cairn_is_the_run_of_python(self):
        self.expect_whole((self.cairn_losses, self.cairn_weights))

    def test_cairn_continues_what_python_began(self):
        for batch in range(1, BATCHES):
            with self.subTest(batch=batch):
                self.expect_whole(self.cairn(f"from-{batch}", self.file("python", batch)), batch)

    def test_python_continues_what_cairn_began(self):
        for batch in range(1, BATCHES):
            with self.subTest(batch=batch):
                self.expect_whole(self.python(self.file("cairn", batch)), batch)

    def test_python_continues_what_cairn_continued(self):
        self.cairn("between", self.file("python", 4))
        for batch in 5, 8, 10, 12:
            with self.subTest(batch=batch):
                self.expect_whole(self.python(self.file("between", batch)), batch)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
