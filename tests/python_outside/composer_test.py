#!/usr/bin/python3
"""A run of MosaicML's Composer saves through cairn.composer, continues in C++, and comes back.

usage: composer_test.py LIBRARY CONTINUE CAIRN RUNS

LIBRARY is libcairn-c.so of the build, CONTINUE the example composer_continue, CAIRN the tool, RUNS
the folder of Composer's golden runs. Composer is the real one, from its source. Skipped without
CAIRN_FRAMEWORKS (see fetch_frameworks) and a Debian with its other packages.
"""
import pathlib
import subprocess
import sys
import unittest

import torch

import package

LIBRARY, CONTINUE, TOOL, RUNS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
SCRIPT = pathlib.Path(__file__).with_name("composer_run.py")
ROOTS = package.torch_folders("torch", "torchvision", "yaml", "tqdm", "psutil", "cpuinfo",
                              "importlib_metadata", "requests", "packaging", "PIL")


class ComposerTest(unittest.TestCase):
    """In the first such Debian."""

    @classmethod
    def setUpClass(cls):
        cls.root = ROOTS[0]
        cls.entered = cls.root.folder()
        cls.folder = cls.entered.__enter__()
        package.copy_package(LIBRARY, cls.folder)
        package.copy_frameworks(cls.folder)
        (cls.folder / "data.pt").write_bytes((RUNS / "data.pt").read_bytes())
        # The undisturbed run.
        cls.weights = cls.composer("whole", "whole.pt")

    @classmethod
    def tearDownClass(cls):
        cls.entered.__exit__(None, None, None)

    @classmethod
    def composer(cls, place, out, *more):
        """The final weights of a run in Composer."""
        cls.root.run(SCRIPT, [cls.folder / "data.pt", cls.folder / place, cls.folder / out, *more],
                     cls.folder, [f"PYTHONPATH={cls.root.inside(cls.folder)}"])
        return torch.load(cls.folder / out)

    def assert_near(self, weights, tolerance):
        """With tolerance 0: the same bits."""
        self.assertEqual(list(weights), list(self.weights))
        for name, tensor in weights.items():
            difference = (tensor.double() - self.weights[name].double()).abs().max().item()
            self.assertLessEqual(difference, tolerance, name)

    def test_the_files_are_good_and_the_newest_three_stay(self):
        names = {path.name for path in (self.folder / "whole").iterdir()}
        self.assertEqual(names, {"ep2-ba13-rank0.pt", "ep2-ba14-rank0.pt", "ep2-ba15-rank0.pt",
                                 "latest-rank0.pt"})
        self.assertEqual((self.folder / "whole" / "latest-rank0.pt").resolve().name,
                         "ep2-ba15-rank0.pt")
        subprocess.run([TOOL, "verify", "--full", self.folder / "whole"], check=True)

    def test_composer_resumes_by_autoresume(self):
        self.composer("resumed", "half.pt", "--until", "8ba")
        self.assert_near(self.composer("resumed", "end.pt", "--autoresume"), 0)

    def test_composer_resumes_from_the_file(self):
        self.composer("loaded", "half.pt", "--until", "8ba")
        self.assert_near(self.composer("other", "end.pt", "--load",
                                       self.root.inside(self.folder / "loaded/ep1-ba8-rank0.pt")),
                         0)

    def test_cpp_resumes_and_composer_takes_over_again(self):
        self.composer("begun", "half.pt", "--until", "8ba")
        out = self.folder / "cpp.pt"
        subprocess.run([CONTINUE, "--data", RUNS / "data.pt", "--case", "adamw_cosine",
                        "--checkpoint", self.folder / "begun/ep1-ba8-rank0.pt", "--out", out,
                        "--sampler-seed", "1", "--save-folder", self.folder / "cpp"], check=True)
        # Other kernels and another PyTorch: the last bits differ.
        self.assert_near(torch.load(out), 1e-5)
        (checkpoint,) = (self.folder / "cpp").glob("**/ep2-ba11-rank0.pt")
        self.assert_near(self.composer("back", "back.pt", "--load",
                                       self.root.inside(checkpoint)), 1e-5)

    def test_the_code_in_the_documents_runs(self):
        page = self.folder / "python.md"
        page.write_bytes((package.ROOT / "docs" / "python.md").read_bytes())
        self.root.run(package.ROOT / "tools" / "doc_blocks.py", ["python", page], self.folder,
                      [f"PYTHONPATH={self.root.inside(self.folder)}"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
