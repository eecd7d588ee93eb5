#!/usr/bin/env python3
"""Jobs of a real Slurm, which it interrupts itself, end with the bits of one that it did not.

    tests/dist/with_slurm tests/dist/slurm_test.py DIST_PROGRAM
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
RUN = ["train", "dropout=30", "norm=1", "samples=40", "duration=3ep"]
RANKS = 4
LIMIT_S = 150


def weights(text):
    return re.findall(r"^weights \S+", text, re.M)


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ran = subprocess.run(["srun", "-n", str(RANKS), PROGRAM, *RUN], text=True, timeout=LIMIT_S,
                             capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        cls.said = ran.stdout + ran.stderr
        cls.undisturbed = weights(ran.stdout)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    # All wait at one batch until Slurm asks; a run that goes on from there does not.
    def submit(self, script, *options):
        (self.folder / "job").write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        command = " ".join([PROGRAM, *RUN, f"folder={self.folder}/saved", "interval=1ep",
                            "at_batch=4", "how=wait"])
        ran = subprocess.run(
            ["sbatch", "--parsable", "--requeue", "--open-mode=append", f"--ntasks={RANKS}",
             f"--output={self.out}", f"--export=ALL,COMMAND={command}", *options,
             self.folder / "job"],
            text=True, capture_output=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.strip()

    def wait_for(self, what, is_there):
        end = time.monotonic() + LIMIT_S
        while not is_there(self.text()):
            self.assertLess(time.monotonic(), end, f"waited for {what}:\n{self.text()}")
            time.sleep(0.2)

    def text(self):
        return self.out.read_text(encoding="utf-8") if self.out.exists() else ""

    def expect_the_same_end(self):
        self.wait_for("the end", lambda text: text.count("accuracy") == RANKS)
        self.assertEqual(self.text().count("begins at batch 4"), RANKS, self.text())
        self.assertEqual(set(weights(self.text())[-RANKS:]), set(self.undisturbed))

    def test_tasks_know_who_they_are(self):
        for rank in range(RANKS):
            self.assertIn(f"rank {rank} of {RANKS} (Slurm's variables)", self.said)
        self.assertEqual(len(self.undisturbed), RANKS)
        self.assertEqual(len(set(self.undisturbed)), 1)

    # SIGTERM, some time before the limit, to the tasks of the step; the script has itself requeued.
    def test_a_job_at_its_limit(self):
        self.submit('srun $COMMAND; code=$?; echo "ended with $code"\n'
                    '[ $code != 75 ] || scontrol requeue $SLURM_JOB_ID',
                    "--time=1", "--signal=TERM@50")
        self.expect_the_same_end()
        self.wait_for("the script", lambda text: "ended with 0" in text)
        self.assertIn("ended with 75", self.text())

    # By hand, or for a job that is more important.
    def test_a_job_that_is_requeued(self):
        job = self.submit("exec srun $COMMAND")
        self.wait_for("all tasks", lambda text: text.count("waits") == RANKS)
        subprocess.run(["scontrol", "requeue", job], check=True)
        self.expect_the_same_end()


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
