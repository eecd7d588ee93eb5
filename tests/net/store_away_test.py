#!/usr/bin/env python3
"""A run whose bucket is away for 60 seconds continues to train, and then saves.

    store_away_test.py DIGITS FAKE_STORE
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from relay import Relay

AWAY = 60
EPOCHS = 4


def check(is_so, what, output):
    if not is_so:
        sys.exit(f"{what}\n{output}")


def main(digits, fake_store):
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([fake_store, "s3", os.path.join(folder, "requests")],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said = json.loads(server.stdout.readline())
        relay = Relay(int(said["url"].rsplit(":", 1)[1]))
        environment = dict(os.environ, S3_ENDPOINT_URL=f"http://127.0.0.1:{relay.port}",
                           AWS_ACCESS_KEY_ID=said["key"], AWS_SECRET_ACCESS_KEY=said["secret"],
                           AWS_DEFAULT_REGION=said["region"])
        run = subprocess.Popen(
            [digits, "--no-progress-bar", "--max-duration", f"{EPOCHS}ep", "--save-interval",
             "20ba", "--save-filename", "ba{batch}.pt", "--seed", "17", "--run-name", "digits",
             "--autoresume", "--save-folder", "s3://bucket/{run_name}", "--out-weights",
             os.path.join(folder, "weights.pt")],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        output = ""
        began = None
        for line in run.stdout:
            output += line
            if began is None and line.startswith("saved "):
                began = time.monotonic()
                relay.go_away(AWAY)
        code = run.wait()
        took = time.monotonic() - began if began else 0
        server.stdin.close()
        server.wait()
    check(began is not None, "nothing was saved before the bucket went away", output)
    check(code == 0, f"the run ended with {code}", output)
    check(took >= AWAY, f"the run ended after {took:.0f} s, while the bucket was away", output)
    check("trying again in" in output, "no line says that it is tried again", output)
    batches = [int(batch) for batch in re.findall(r"^saved .*/ba(\d+)\.pt", output, re.M)]
    skipped = [int(batch) for batch in re.findall(r"^skipped .*/ba(\d+)\.pt", output, re.M)]
    last = max(batches)
    check(not skipped or max(skipped) < last, "the newest save was left out", output)
    every = set(range(20, last + 1, 20)) | {last}
    check(every == set(batches) | set(skipped), f"saved {batches}, skipped {skipped}", output)
    print(f"away for {AWAY} s: saved {batches}, skipped {skipped}")


if __name__ == "__main__":
    main(*sys.argv[1:])
