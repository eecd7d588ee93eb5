#!/usr/bin/python3
"""Files that cairn's programs wrote, opened in Python.

usage: programs_test.py DIGITS CONTINUE RUNS TEST...

DIGITS and CONTINUE are the two example programs, RUNS the folder of Composer's golden runs.
Exits with 77 (ctest: skipped) where python3-torch is not installed.
"""
import pathlib
import re
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

DIGITS, CONTINUE, RUNS = (pathlib.Path(argument) for argument in sys.argv[1:4])
SCANS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_data.inc"


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True,
                          text=True).stdout


class Net(torch.nn.Module):
    """The network of examples/digits/net.h."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = torch.nn.BatchNorm2d(16)
        self.conv2 = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = torch.nn.BatchNorm2d(32)
        self.dropout = torch.nn.Dropout(0.5)
        self.linear = torch.nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.linear(self.dropout(torch.max_pool2d(x, 2).flatten(1)))


def test_scans():
    """The last 360 scans: images and labels."""
    scans = re.findall(r'"(\d)([a-q]{64})"', SCANS.read_text())[-360:]
    images = torch.tensor([[ord(p) - ord("a") for p in pixels] for _, pixels in scans])
    labels = torch.tensor([int(label) for label, _ in scans])
    return images.view(-1, 1, 8, 8) / 16, labels


class FilesOfDigits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        cls.output = run(DIGITS, "--max-duration", "2ep", "--save-folder", cls.folder / "full",
                         "--save-interval", "40ba", "--save-metrics", "--no-progress-bar",
                         "--out-weights", cls.folder / "final.pt")
        run(DIGITS, "--max-duration", "1ep", "--save-folder", cls.folder / "weights",
            "--save-weights-only", "--no-progress-bar")

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def test_full_checkpoint_has_everything_python_looks_for(self):
        checkpoint = check_checkpoint.check(self.folder / "full" / "latest-rank0.pt")
        timestamp = checkpoint["state"]["timestamp"]["Timestamp"]
        self.assertEqual((timestamp["epoch"], timestamp["batch"], timestamp["sample"]),
                         (2, 90, 2 * 1437))
        self.assertEqual(checkpoint["state"]["rank_zero_seed"], 17)
        self.assertEqual(checkpoint["state"]["run_name"], "digits")
        self.assertIn("train_metrics", checkpoint["state"])

    def test_checkpoint_inside_an_epoch_has_its_position(self):
        checkpoint = check_checkpoint.check(self.folder / "full" / "ep1-ba80-rank0.pt")
        timestamp = checkpoint["state"]["timestamp"]["Timestamp"]
        self.assertEqual((timestamp["epoch"], timestamp["batch_in_epoch"]), (1, 35))

    def test_weights_only_checkpoint_holds_the_model_alone(self):
        checkpoint = check_checkpoint.check(self.folder / "weights" / "latest-rank0.pt")
        self.assertEqual(list(checkpoint), ["state"])

    def test_final_weights_are_those_of_the_last_checkpoint(self):
        weights = check_checkpoint.check(self.folder / "final.pt")
        checkpoint = check_checkpoint.check(self.folder / "full" / "latest-rank0.pt")
        saved = checkpoint["state"]["model"]
        self.assertEqual(["module." + name for name in weights], list(saved))
        for name, tensor in weights.items():
            self.assertTrue(torch.equal(tensor, saved["module." + name]), name)

    def test_network_in_python_with_these_weights_is_as_accurate(self):
        net = Net()
        net.load_state_dict(check_checkpoint.check(self.folder / "final.pt"), strict=True)
        net.eval()
        images, labels = test_scans()
        with torch.no_grad():
            accuracy = (net(images).argmax(1) == labels).float().mean().item()
        printed = float(re.search(r"test accuracy ([0-9.]+)", self.output)[1])
        self.assertAlmostEqual(accuracy, printed, delta=1.5 / len(labels))


class FilesOfComposerContinue(unittest.TestCase):
    def test_final_weights_are_composers(self):
        for case in ("adamw_cosine", "sgdw_linear", "adam_steplr", "ema"):
            with self.subTest(case), tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "final.pt"
                run(CONTINUE, "--data", RUNS / "data.pt", "--case", case, "--out", out,
                    "--checkpoint", RUNS / case / "ep1-ba8-rank0.pt")
                weights = check_checkpoint.check(out)
                expected = torch.load(RUNS / case / "final_weights.pt")
                self.assertEqual(list(weights), list(expected))
                for name, tensor in expected.items():
                    self.assertEqual(tensor.dtype, weights[name].dtype)
                    # Rounding alone moves these two under Adam: composer_continue_test.cpp.
                    if case != "sgdw_linear" and name in ("module.0.bias", "module.1.running_mean"):
                        continue
                    self.assertTrue(torch.allclose(tensor, weights[name], rtol=0, atol=1e-5), name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
