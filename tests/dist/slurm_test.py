#!/usr/bin/env python3
"""Jobs that a real Slurm interrupts end with the same bits as uninterrupted jobs.

    tests/dist/with_slurm tests/dist/slurm_test.py DIST_PROGRAM

The jobs run side by side, since they mostly wait for Slurm.
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
LIMIT_S = 240
# Exit code 75 means: saved, start me again. The script is the one in docs/distributed.md.
REQUEUES_ITSELF = ('srun $COMMAND; code=$?; echo "ended with $code"\n'
                   '[ $code != 75 ] || scontrol requeue $SLURM_JOB_ID\n'
                   'exit $code')


def weights(text):
    return re.findall(r"^weights \S+", text, re.M)


class Job:
    """All of its tasks wait at one batch until Slurm asks; a run that goes on does not."""

    def __init__(self, folder, script, *options):
        folder.mkdir()
        self.out = folder / "out"
        (folder / "job").write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        command = " ".join([PROGRAM, *RUN, f"folder={folder}/saved", "interval=1ep",
                            "at_batch=4", "how=wait"])
        ran = subprocess.run(
            ["sbatch", "--parsable", "--requeue", "--open-mode=append", f"--ntasks={RANKS}",
             f"--output={self.out}", f"--export=ALL,COMMAND={command}", *options, folder / "job"],
            text=True, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        self.number = ran.stdout.strip()

    def text(self):
        return self.out.read_text(encoding="utf-8") if self.out.exists() else ""

    def wait_for(self, what, is_there):
        end = time.monotonic() + LIMIT_S
        while not is_there(self.text()):
            assert time.monotonic() < end, f"waited for {what}:\n{self.text()}"
            time.sleep(0.2)

    def wait_until_all_wait(self):
        self.wait_for("all tasks", lambda text: text.count("waits") == RANKS)


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # Slurm sends SIGTERM to the step's tasks, half a minute before the limit.
        cls.limited = Job(cls.folder / "limited", REQUEUES_ITSELF, "--time=1", "--signal=TERM@30")
        ran = subprocess.run(["srun", "-n", str(RANKS), PROGRAM, *RUN], text=True, timeout=LIMIT_S,
                             capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        cls.said = ran.stdout + ran.stderr
        cls.undisturbed = weights(ran.stdout)

    def expect_the_same_end(self, job):
        job.wait_for("the end", lambda text: text.count("accuracy") == RANKS)
        self.assertEqual(job.text().count("begins at batch 4"), RANKS, job.text())
        self.assertEqual(set(weights(job.text())[-RANKS:]), set(self.undisturbed))

    def test_1_tasks_know_who_they_are(self):
        for rank in range(RANKS):
            self.assertIn(f"rank {rank} of {RANKS} (Slurm's variables)", self.said)
        self.assertEqual(len(self.undisturbed), RANKS)
        self.assertEqual(len(set(self.undisturbed)), 1)

    # If srun starts a program with a terminal and without a shell, all tasks are one job.
    def test_2_a_program_with_a_terminal(self):
        command = f"srun --pty -n 2 {PROGRAM} collectives"
        ran = subprocess.run(["script", "-qec", command, "/dev/null"], text=True, timeout=LIMIT_S,
                             capture_output=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("rank 0 of 2 (Slurm's variables)", ran.stdout)
        self.assertIn("all of it holds", ran.stdout)

    # The job is requeued by hand.
    def test_3_a_job_that_is_requeued(self):
        job = Job(self.folder / "requeued", "exec srun $COMMAND")
        job.wait_until_all_wait()
        subprocess.run(["scontrol", "requeue", job.number], check=True)
        self.expect_the_same_end(job)

    def test_4_a_job_at_its_limit(self):
        self.limited.wait_until_all_wait()
        self.expect_the_same_end(self.limited)
        self.limited.wait_for("the script", lambda text: "ended with 0" in text)
        self.assertIn("ended with 75", self.limited.text())

    # The job is preempted by a short job that is more important and needs all processors.
    def test_5_a_job_that_is_preempted(self):
        job = Job(self.folder / "preempted", REQUEUES_ITSELF, "--partition=spare")
        job.wait_until_all_wait()
        subprocess.run(["srun", "--partition=urgent", "--ntasks=8", "true"], timeout=LIMIT_S,
                       check=True)
        self.expect_the_same_end(job)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
