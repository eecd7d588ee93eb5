#!/usr/bin/env python3
"""Runs that save to a bucket end with the same bits as an undisturbed run, whatever is killed.

    with_radosgw killed_runs_test.py DIGITS CAIRN [--runs N] [--server-kills M] [--seed S]

Each of N runs is killed with SIGKILL three times, once in each of its first three quarters. Each
time it is started again in an empty folder; the fourth start goes on to the end. Dice decide
whether a kill comes at the end of a batch or after a byte that the run sends to the server. Nearly
all of those bytes belong to a checkpoint, whose rest is never sent. During M of the runs the server
is killed, too, after a byte, and started again ($CAIRN_S3_RESTART).

Then the final weights and the whole last checkpoint in the bucket must equal those of an
undisturbed run. The bucket must contain the same checkpoints, each of them whole, and nothing else.
No start may leave a file in its folder.

With --parts (for a DIGITS whose checkpoints are larger than two parts of an upload: wide_run) each
kill comes after a byte. Then the uploads that were begun and never completed are listed: there must
be some. They are given up. After that there must be none, and the checkpoints must be unchanged.

The seed and a run's number, which are printed, determine what is done: --only repeats one run.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import xml.etree.ElementTree

from relay import Relay
from s3_request import s3_request

EPOCHS = 4
BATCHES = 180
KILLS = 3
QUARTER = BATCHES // (KILLS + 1)


class Failed(Exception):
    pass


class Programs:
    def __init__(self, options):
        self.digits = options.digits
        self.cairn = options.cairn
        self.save_interval = options.save_interval
        self.server = os.environ["S3_ENDPOINT_URL"]
        self.restart = os.environ.get("CAIRN_S3_RESTART")
        self.relay = Relay(int(self.server.rsplit(":", 1)[1]))

    def tool(self, *arguments):
        """Runs the tool directly against the server, and returns its output."""
        done = subprocess.run([self.cairn, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed(f"cairn {' '.join(map(str, arguments))}: "
                         f"{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout


class Run:
    """All runs have one name, so their checkpoints are equal. Each has its own bucket folder."""

    def __init__(self, programs, folder, name):
        self.programs = programs
        self.bucket_folder = f"s3://bucket/{name}/digits"
        self.weights = folder / f"{name}.pt"
        self.log = folder / f"{name}.log"
        self.process = None
        self.started = threading.Event()
        self.restarting = None
        self.inside = []  # for each kill at a byte: was the byte part of an object?
        self.was_killed_inside = False

    def start(self, *more):
        """Starts the program in an empty folder, and returns its exit code."""
        command = [self.programs.digits, "--no-progress-bar", "--max-duration", f"{EPOCHS}ep",
                   "--save-interval", self.programs.save_interval,
                   "--save-num-checkpoints-to-keep", "0", "--seed", "17", "--run-name", "digits",
                   "--autoresume", "--save-folder", os.path.dirname(self.bucket_folder) +
                   "/{run_name}", "--out-weights", str(self.weights), *more]
        environment = dict(os.environ,
                           S3_ENDPOINT_URL=f"http://127.0.0.1:{self.programs.relay.port}")
        with tempfile.TemporaryDirectory() as empty, self.log.open("ab") as log:
            self.started.clear()
            self.process = subprocess.Popen(command, cwd=empty, stdout=log, stderr=log,
                                            env=environment)
            self.started.set()
            code = self.process.wait()
            left = [name for _, _, files in os.walk(empty) for name in files]
            if left:
                raise Failed(f"a start left {left} in its folder")
        return code

    def kill(self, is_inside):
        self.started.wait()
        self.process.kill()
        self.inside.append(is_inside)
        self.was_killed_inside |= is_inside
        return True

    def kill_server(self, is_inside):
        self.restarting = subprocess.Popen([self.programs.restart], stdout=subprocess.PIPE)
        self.restarting.stdout.readline()  # The server was killed; now it is being started.
        self.inside.append(is_inside)
        return False

    def kill_and_resume(self, plan):
        for step in plan:
            triggers = []
            if "server_byte" in step:
                triggers.append((step["server_byte"], self.kill_server))
            if "byte" in step:
                triggers.append((step["byte"], self.kill))
            self.programs.relay.arm(triggers)
            at_batch = ["--kill-at-batch", str(step["batch"])] if "batch" in step else []
            code = self.start(*at_batch)
            if code != step["ends"]:
                raise Failed(f"{step}: it ended with {code}")
            if "server_byte" in step and self.restarting is None:
                raise Failed(f"{step}: the server was not killed")
        self.programs.relay.arm([])
        if self.restarting is not None and self.restarting.wait() != 0:
            sys.exit("the server did not come back")

    def checkpoints(self):
        """Verifies all checkpoints, and returns their names."""
        rows = json.loads(self.programs.tool("ls", "--json", "--all", "--verify",
                                             self.bucket_folder))["checkpoints"]
        return sorted(row["name"] for row in rows)

    def compare(self, straight):
        tool = self.programs.tool
        tool("diff", straight.weights, self.weights)
        names = straight.checkpoints()
        if self.checkpoints() != names:
            raise Failed(f"there are {self.checkpoints()}, expected {names}")
        tool("verify", "--full", self.bucket_folder)
        last = next(name for name in names if f"-ba{BATCHES}-" in name)
        tool("diff", f"{straight.bucket_folder}/{last}", f"{self.bucket_folder}/{last}")


def unfinished_uploads():
    """The keys and ids of all uploads in the bucket that were neither completed nor given up."""
    status, body = s3_request("GET", "/bucket", {"uploads": None})
    if status != 200:
        raise Failed(f"listing uploads: {status} {body}")
    root = xml.etree.ElementTree.fromstring(body)
    space = root.tag[:root.tag.index("}") + 1] if root.tag.startswith("{") else ""
    if root.findtext(f"{space}IsTruncated") == "true":
        raise Failed("there are more unfinished uploads than a page holds")
    return [(upload.findtext(f"{space}Key"), upload.findtext(f"{space}UploadId"))
            for upload in root.iter(f"{space}Upload")]


def give_up_uploads(was_killed_inside):
    """Gives up all uploads that were never completed. Returns their number."""
    uploads = unfinished_uploads()
    if was_killed_inside and not uploads:
        raise Failed("a run was killed in the middle of a part, and no upload of it is left")
    for key, upload in uploads:
        status, body = s3_request("DELETE", f"/bucket/{urllib.parse.quote(key)}",
                                  {"uploadId": upload})
        if status != 204:
            raise Failed(f"giving up an upload of {key}: {status} {body}")
    if unfinished_uploads():
        raise Failed("uploads that were given up are still there")
    return len(uploads)


def draw_plan(dice, sent, with_server, only_bytes):
    """Draws what is done with each start; `sent` is the number of bytes of an undisturbed run."""
    quarter = sent * 9 // 10 // (KILLS + 1)  # no start ends before it is killed
    plan = []
    for kill in range(KILLS):
        if dice.random() < 0.5 and not only_bytes:
            plan.append({"batch": QUARTER * kill + dice.randrange(5, QUARTER)})
        else:
            plan.append({"byte": dice.randrange(1, quarter)})
        plan[-1]["ends"] = -signal.SIGKILL
    plan.append({"ends": 0})
    if with_server:
        step = dice.choice([step for step in plan if "batch" not in step])
        step["server_byte"] = dice.randrange(1, step.get("byte", quarter))
    return plan


def test_run(number, options, programs, folder, straight):
    """Returns whether the bits are the same."""
    dice = random.Random(f"{options.seed}/{number}")
    plan = draw_plan(dice, straight.sent, number < options.server_kills, options.parts)
    run = Run(programs, folder, f"run{number}")
    what = f"run {number} (--seed {options.seed} --only {number}): {plan}"
    try:
        run.kill_and_resume(plan)
        run.compare(straight)
        if options.parts:
            left = give_up_uploads(run.was_killed_inside)
            print(f"run {number}: {left} uploads were begun and never completed", flush=True)
            run.compare(straight)
    except Failed as failed:
        print(f"{what}: FAILED: {failed}\n{run.log.read_text()[-3000:]}", flush=True)
        return False, run.inside
    print(f"{what}: the same bits", flush=True)
    run.log.unlink()
    return True, run.inside


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("digits", type=os.path.abspath)
    parser.add_argument("cairn", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--server-kills", type=int, default=2)
    parser.add_argument("--save-interval", default="7ba")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--only", type=int, help="the number of one run")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    programs = Programs(options)
    with tempfile.TemporaryDirectory() as folder:
        straight = Run(programs, pathlib.Path(folder), "straight")
        if straight.start() != 0:
            sys.exit(f"the run that nobody disturbs failed\n{straight.log.read_text()[-3000:]}")
        straight.sent = programs.relay.sent
        numbers = range(options.first, options.runs) if options.only is None else [options.only]
        results = [test_run(number, options, programs, pathlib.Path(folder), straight)
                   for number in numbers]
    passed = sum(is_same for is_same, _ in results)
    inside = [place for _, places in results for place in places]
    print(f"{passed} of {len(results)} runs ended with the same bits; of {len(inside)} kills "
          f"after a byte, of runs and of servers, {sum(inside)} were inside an object")
    sys.exit(passed != len(results))


if __name__ == "__main__":
    main()
