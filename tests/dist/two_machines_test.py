#!/usr/bin/env python3
"""Two machines and the cable between them, which is pulled: network namespaces of this machine.

    tests/dist/two_machines_test.py DIST_PROGRAM

Exits with 77 if they cannot be made (needs ip, unshare, root).
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = None
RUN = ["train", "dropout=30", "samples=40", "duration=2ep"]
RANKS = 4
TIMEOUT_S = 15
LIMIT_S = 120
# dist_timeout, plus time to find the missing ranks (LivenessWatch's kPatience) and to end.
BOUND_S = TIMEOUT_S + 60


class Process:
    """One rank. Its output is read as it comes."""

    def __init__(self, command, environment):
        self.text = ""
        self.changed = threading.Condition()
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.text += line
                self.changed.notify_all()

    def wait_for(self, text):
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.text, LIMIT_S), self.text

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, timeout=LIMIT_S):
        code = self.process.wait(timeout)
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()
        return code


class Machines:
    """Two of them, with two ranks each. They see one disk; whether they use one is the run's."""

    def __init__(self, name):
        self.names = [f"cairn-{os.getpid()}-{name}-{i}" for i in range(2)]
        for machine in self.names:
            subprocess.run(["ip", "netns", "add", machine], check=True)
            self.ip(machine, "link", "set", "lo", "up")
        self.ip(self.names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable",
                "netns", self.names[1])
        for i, machine in enumerate(self.names):
            self.ip(machine, "address", "add", f"10.87.0.{i + 1}/24", "dev", "cable")
            self.ip(machine, "link", "set", "cable", "up")

    def remove(self):
        for machine in self.names:
            subprocess.run(["ip", "netns", "del", machine], check=False)

    @staticmethod
    def ip(machine, *command):
        subprocess.run(["ip", "-n", machine, *command], check=True)

    def pull_cable(self):
        self.ip(self.names[1], "link", "set", "cable", "down")

    def plug_in_cable(self):
        self.ip(self.names[1], "link", "set", "cable", "up")

    def start(self, *arguments):
        processes = []
        for rank in range(RANKS):
            node, local = divmod(rank, 2)
            environment = {"RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_RANK": local,
                           "LOCAL_WORLD_SIZE": 2, "NODE_RANK": node, "MASTER_ADDR": "10.87.0.1",
                           "MASTER_PORT": 29500, "GLOO_SOCKET_IFNAME": "cable",
                           "OMP_NUM_THREADS": 1}
            inside = ["ip", "netns", "exec", self.names[node], "unshare", "--uts", "sh", "-c",
                      f'hostname machine{node}; exec "$0" "$@"']
            processes.append(Process([*inside, PROGRAM, *RUN, *arguments],
                                     {key: str(value) for key, value in environment.items()}))
        return processes


def weights(processes):
    return {re.search(r"^weights \S+", process.text, re.M)[0] for process in processes}


class TwoMachinesTest(unittest.TestCase):
    def run_to_the_end(self, machines, *arguments):
        processes = machines.start(*arguments)
        for process in processes:
            self.assertEqual(process.end(), 0, process.text)
        return processes

    # `begin` brings all ranks to the point where the cable is pulled. `then` runs after that, until
    # the ranks wait only for the network. `run` has more arguments of the training.
    def pull_at(self, name, begin, then, *arguments, run=()):
        with tempfile.TemporaryDirectory() as folder:
            machines = Machines(name)
            try:
                saved = [f"folder={folder}/saved", *run]
                processes = machines.start(*saved, f"timeout_ms={TIMEOUT_S * 1000}", *arguments)
                begin(processes)
                machines.pull_cable()
                then(processes)
                begun = time.monotonic()
                for process in processes:
                    self.assertEqual(process.end(BOUND_S), 3, process.text)
                self.assertLess(time.monotonic() - begun, BOUND_S)
                for process in processes[:2]:
                    self.assertRegex(process.text, r"DistError: .*ranks 2, 3 did not come")
                for process in processes[2:]:
                    self.assertRegex(process.text, r"DistError: .*rank 0 cannot be reached")
                machines.plug_in_cable()
                again = self.run_to_the_end(machines, *saved)
                undisturbed = self.run_to_the_end(machines, *run)
                self.assertEqual(weights(again), weights(undisturbed))
                return again
            finally:
                machines.remove()

    def while_training(self, name="train", run=()):
        def begin(processes):
            for process in processes:
                process.wait_for("waits")

        def then(processes):
            for process in processes:
                process.go_on()
        again = self.pull_at(name, begin, then, "at_batch=4", "how=line", run=run)
        for process in again:
            self.assertIn("begins at batch 3", process.text)  # it was not saved yet

    # The machines share no disk: a rank gets missing files over the cable.
    def while_training_with_a_disk_each(self):
        self.while_training("disks", ["machines=1", "shard=FULL_SHARD", "state=sharded"])

    # Rank 0 saves for longer than the other ranks' time limit. Its checkpoint is complete.
    def while_saving(self):
        def then(processes):
            for process in processes[2:]:
                self.assertEqual(process.process.wait(BOUND_S), 3)
            processes[0].go_on()
        again = self.pull_at("save", lambda processes: processes[0].wait_for("waits"), then,
                             "slow_line=1")
        for process in again:
            self.assertIn("begins at batch 2", process.text)

    # The jobs run side by side, since they mostly wait.
    def test_the_cable_is_pulled(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for done in [pool.submit(self.while_training), pool.submit(self.while_saving),
                         pool.submit(self.while_training_with_a_disk_each)]:
                done.result()


def may_make_machines():
    name = f"cairn-{os.getpid()}-probe"
    try:
        for command in [["ip", "netns", "add", name], ["unshare", "--uts", "true"],
                        ["ip", "-n", name, "link", "add", "cable", "type", "veth", "peer", "name",
                         "other"], ["ip", "netns", "del", name]]:
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"skipped: no network namespaces here ({error})", file=sys.stderr)
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        return False
    return True


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    if not may_make_machines():
        sys.exit(77)
    unittest.main()
