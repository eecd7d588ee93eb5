#!/usr/bin/python3
"""Moves a run from Composer's bucket to cairn, and cairn's result back to Composer.

    with_radosgw composer_test.py CONTINUE RUNS    # the example program, Composer's golden runs

Composer's checkpoints are put into the bucket under Composer's names, with a pointer. The program
continues from the pointer, and saves to the bucket. Then a reader with Composer's rules
(get_file(): the object, or the target of NAME.symlink) finds the newest checkpoint, and
torch.load() opens it.

Needs S3_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and a bucket "bucket". Exits with
77 if python3-torch is not installed.
"""
import datetime
import hashlib
import hmac
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
try:
    import torch

    import check_checkpoint
except ImportError:
    print("SKIPPED: python3-torch is not installed")
    sys.exit(77)

CASE = "adamw_cosine"


class Bucket:
    """The requests of S3 that Composer's reader needs, signed with AWS's version 4."""

    def __init__(self, name):
        self.endpoint = urllib.parse.urlsplit(os.environ["S3_ENDPOINT_URL"])
        self.name = name

    def get(self, key):
        """Returns the bytes. Raises FileNotFoundError."""
        try:
            return self.send("GET", key, b"")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise FileNotFoundError(key) from error
            raise

    def put(self, key, data):
        self.send("PUT", key, data)

    def send(self, method, key, data):
        now = datetime.datetime.now(datetime.timezone.utc)
        time = now.strftime("%Y%m%dT%H%M%SZ")
        path = urllib.parse.quote(f"/{self.name}/{key}")
        digest = hashlib.sha256(data).hexdigest()
        headers = {"host": self.endpoint.netloc, "x-amz-content-sha256": digest,
                   "x-amz-date": time}
        names = ";".join(headers)
        canonical = "\n".join([method, path, "", *(f"{k}:{v}" for k, v in headers.items()), "",
                               names, digest])
        scope = f"{time[:8]}/us-east-1/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", time, scope,
                          hashlib.sha256(canonical.encode()).hexdigest()])
        signer = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
        for part in [*scope.split("/"), text]:
            signer = hmac.new(signer, part.encode(), hashlib.sha256).digest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, "
            f"SignedHeaders={names}, Signature={signer.hex()}")
        request = urllib.request.Request(self.endpoint._replace(path=path).geturl(), method=method,
                                         data=data if method == "PUT" else None, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()


def get_file(bucket, name):
    """Composer's get_file(): returns the name and the bytes of the object, or of the target of
    NAME.symlink. The pointer's text is the name of another object, used unstripped."""
    if name.endswith(".symlink"):
        return get_file(bucket, bucket.get(name).decode())
    try:
        return name, bucket.get(name)
    except FileNotFoundError as missing:
        try:
            return get_file(bucket, name + ".symlink")
        except FileNotFoundError:
            raise missing from None


def run(*command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout.decode()}")


def main(program, runs):
    bucket = Bucket("bucket")
    for name in ("ep0-ba5-rank0.pt", "ep1-ba8-rank0.pt"):
        bucket.put(f"theirs/checkpoints/{name}", (runs / CASE / name).read_bytes())
    bucket.put("theirs/checkpoints/latest-rank0.pt.symlink",
               b"theirs/checkpoints/ep1-ba8-rank0.pt")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(program, "--data", runs / "data.pt", "--case", CASE, "--out", folder / "final.pt",
            "--checkpoint", "s3://bucket/theirs/checkpoints/latest-rank0.pt",
            "--save-folder", "s3://bucket/ours/checkpoints")
        name, data = get_file(bucket, "ours/checkpoints/latest-rank0.pt")
        (folder / "found.pt").write_bytes(data)
        checkpoint = check_checkpoint.check(folder / "found.pt")
        time = checkpoint["state"]["timestamp"]["Timestamp"]
        expected = f"ours/checkpoints/ep{time['epoch']}-ba{time['batch']}-rank0.pt"
        assert name == expected, (name, expected)
        assert time["batch"] == 15, time
        final = check_checkpoint.check(folder / "final.pt")
        model = checkpoint["state"]["model"]
        assert list(model) == list(final), (list(model), list(final))
        for key, tensor in final.items():
            assert torch.equal(model[key], tensor), key
        theirs = torch.load(runs / CASE / "final_weights.pt")
        assert list(theirs) == list(model), (list(theirs), list(model))
    # An error about a missing object names the object that was requested.
    try:
        get_file(bucket, "ours/checkpoints/none.pt")
        sys.exit("found what is not there")
    except FileNotFoundError as missing:
        assert str(missing) == "ours/checkpoints/none.pt", missing
    print("Composer's run went on in cairn, and cairn's is found by Composer's reader")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
