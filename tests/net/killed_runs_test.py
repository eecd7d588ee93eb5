#!/usr/bin/env python3
"""Runs whose save folder is a bucket end with the bits of an undisturbed one, whatever is killed.

    with_radosgw killed_runs_test.py DIGITS CAIRN [--runs N] [--server-kills M]

Each of N runs is killed with SIGKILL at random batches, three times, and each time started again in
an empty folder; during M of them the server is killed, too, and started again ($CAIRN_S3_RESTART).
The last start goes on to the end. All weights must be those of one run that nobody disturbed.
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

EPOCHS = 4
BATCHES = 180


class Run:
    def __init__(self, digits, folder, name):
        self.weights = folder / f"{name}.pt"
        self.log = folder / f"{name}.log"
        self.command = [digits, "--no-progress-bar", "--max-duration", f"{EPOCHS}ep",
                        "--save-interval", "7ba", "--save-num-checkpoints-to-keep", "0",
                        "--seed", "17", "--run-name", name, "--autoresume",
                        "--save-folder", "s3://bucket/{run_name}",
                        "--out-weights", str(self.weights)]

    def start(self, *more):
        """Its exit code, from a folder in which there is nothing."""
        with tempfile.TemporaryDirectory() as empty, self.log.open("ab") as log:
            return subprocess.run([*self.command, *more], cwd=empty, stdout=log, stderr=log,
                                  check=False).returncode

    def fail(self, what):
        sys.exit(f"{what}\n{self.log.read_text()[-3000:]}")


def kill_and_resume(run, kills, restart):
    server = subprocess.Popen([restart]) if restart else None
    for batch in kills:
        code = run.start("--kill-at-batch", str(batch))
        # It may be ahead of that batch already: then it goes on to the end.
        if code not in (0, -signal.SIGKILL):
            run.fail(f"killed at batch {batch}, it ended with {code}")
    if server is not None and server.wait() != 0:
        sys.exit("the server did not come back")
    code = run.start()
    if code != 0:
        run.fail(f"the last start ended with {code}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("digits", type=os.path.abspath)
    parser.add_argument("cairn", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    dice = random.Random(options.seed)
    restart = os.environ.get("CAIRN_S3_RESTART")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        straight = Run(options.digits, folder, "straight")
        if straight.start() != 0:
            straight.fail("the run that nobody disturbs failed")
        for number in range(options.runs):
            run = Run(options.digits, folder, f"run{number}")
            kills = sorted(dice.sample(range(2, BATCHES), 3))
            kill_and_resume(run, kills, restart if number < options.server_kills else None)
            diff = subprocess.run([options.cairn, "diff", straight.weights, run.weights],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if diff.returncode != 0:
                run.fail(f"run {number}, killed at {kills}: {diff.stdout.decode()}")
    print(f"{options.runs} runs, each killed three times, {options.server_kills} of them with the "
          f"server: all with the same bits")


if __name__ == "__main__":
    main()
