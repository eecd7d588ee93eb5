#!/usr/bin/env python3
"""awscli, s3cmd and rclone read what cairn writes to a bucket, and the other way round.

    with_radosgw interop CAIRN     # CAIRN: the tool

Needs S3_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and a bucket "bucket". Skips tools
that are not installed; exits with 77 if none is.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ENDPOINT = os.environ["S3_ENDPOINT_URL"]
KEY = os.environ["AWS_ACCESS_KEY_ID"]
SECRET = os.environ["AWS_SECRET_ACCESS_KEY"]
LARGE = 20_000_000  # more than one part for each tool


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout.decode()}")


def write_safetensors(path, size):
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(len(header).to_bytes(8, "little") + header +
                     random.Random(size).randbytes(size))


class Awscli:
    program = "/usr/bin/aws" if os.path.exists("/usr/bin/aws") else "aws"

    def copy(self, source, target):
        environment = dict(os.environ, AWS_DEFAULT_REGION="us-east-1",
                           AWS_EC2_METADATA_DISABLED="true")
        run(self.program, "--endpoint-url", ENDPOINT, "s3", "cp", source, target, env=environment)


class S3cmd:
    program = "s3cmd"

    def copy(self, source, target):
        host = ENDPOINT.removeprefix("http://")
        verb = "get" if str(source).startswith("s3:") else "put"
        run(self.program, "--no-ssl", f"--host={host}", f"--host-bucket={host}",
            f"--access_key={KEY}", f"--secret_key={SECRET}", "--force", verb, source, target)


class Rclone:
    program = "rclone"

    def copy(self, source, target):
        environment = dict(os.environ, RCLONE_CONFIG_X_TYPE="s3", RCLONE_CONFIG_X_PROVIDER="Ceph",
                           RCLONE_CONFIG_X_ENDPOINT=ENDPOINT, RCLONE_CONFIG_X_ENV_AUTH="true",
                           RCLONE_CONFIG="/dev/null")
        environment.pop("AWS_CA_BUNDLE", None)  # rclone fails if it is set
        source, target = (str(name).replace("s3://", "x:") for name in (source, target))
        run(self.program, "copyto", source, target, env=environment)


def main(cairn):
    tools = [tool() for tool in (Awscli, S3cmd, Rclone) if shutil.which(tool.program)]
    if not tools:
        print("skipped: neither awscli nor s3cmd nor rclone is installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for size in (1_000, LARGE):
            original = folder / "original.safetensors"
            write_safetensors(original, size)
            theirs = "s3://bucket/cairn.safetensors"
            run(cairn, "convert", original, theirs, "--overwrite")
            for tool in tools:
                name = type(tool).__name__
                back = folder / "back.safetensors"
                back.unlink(missing_ok=True)
                tool.copy(theirs, back)
                run(cairn, "diff", original, back)
                run(cairn, "verify", "--full", back)
                ours = f"s3://bucket/by {name}+ü.safetensors"
                tool.copy(original, ours)
                run(cairn, "diff", original, ours)
                run(cairn, "verify", "--full", ours)
                print(f"{name}: {size} bytes there and back")


if __name__ == "__main__":
    main(sys.argv[1])
