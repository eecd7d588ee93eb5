#!/usr/bin/env python3
"""What a checkpoint in a far store costs to read: far_bench.py CAIRN [MIB [LATENCY_MS [MBIT]]]

A server on loopback speaks as much of S3 as reading needs, over a link that this program makes up.
A request is answered after the latency. A new connection costs the latency once more and starts
slowly: 10 packets in the first round trip, twice as many in each next one. All share the rate.
CAIRN is the tool. Prints for each way to read: seconds, its share of the link, and how often curl's
time that is. Exits with 1 when a bound is missed.
"""
import asyncio
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

FIRST_WINDOW = 10 * 1460
CHUNK = 128 << 10
CATCH_UP = 0.02  # seconds: this process wakes up late, the link does not
NAMES = ("a.pt", "hashed.safetensors")
LEAST_SHARE = 0.7  # of the link, of a load
MOST_TIMES = 1.15  # of curl's time, of a copy


class Link:
    """Bytes leave one after another, whichever connection they are of."""

    def __init__(self, latency, rate):
        self.latency = latency
        self.rate = rate
        self.free_at = 0.0

    async def send(self, writer, data):
        self.free_at = max(self.free_at, time.monotonic() - CATCH_UP) + len(data) / self.rate
        await asyncio.sleep(max(0, self.free_at - time.monotonic()))
        writer.write(data)
        await writer.drain()


class Server:
    def __init__(self, link, objects):
        self.link = link
        self.objects = objects  # key to path
        self.requests = 0
        self.port = 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.run(ready)), daemon=True).start()
        ready.wait()

    async def run(self, ready):
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def serve(self, reader, writer):
        window = FIRST_WINDOW
        await asyncio.sleep(self.link.latency)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.requests += 1
                await asyncio.sleep(self.link.latency)
                window = await self.answer(writer, head, window)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, writer, head, window):
        method, target = head.split(" ")[:2]
        key = target.split("?")[0].removeprefix("/bucket/")
        extra, status, begin, end = "", "200 OK", 0, 0
        body = b""
        if "list-type=2" in target:
            body = b"<ListBucketResult></ListBucketResult>"
        elif key not in self.objects:
            status = "404 Not Found"
            body = b"<Error><Code>NoSuchKey</Code></Error>"
        else:
            size = os.path.getsize(self.objects[key])
            end = size
            extra = 'ETag: "e"\r\nLast-Modified: Sun, 22 Nov 2026 12:00:00 GMT\r\n'
            asked = re.search(r"(?im)^range: bytes=(\d*)-(\d*)", head)
            if asked and method == "GET":
                first, last = asked.groups()
                begin = int(first) if first else max(0, size - int(last))
                end = min(size, int(last) + 1) if first and last else size
                status = "206 Partial Content"
                extra += f"Content-Range: bytes {begin}-{end - 1}/{size}\r\n"
        length = len(body) or end - begin
        text = f"HTTP/1.1 {status}\r\n{extra}Content-Length: {length}\r\n\r\n".encode()
        await self.link.send(writer, text + (body if method != "HEAD" else b""))
        if method == "HEAD" or body:
            return window
        return await self.send_file(writer, self.objects[key], begin, end, window)

    async def send_file(self, writer, path, begin, end, window):
        with open(path, "rb") as file:
            file.seek(begin)
            round_began, sent = time.monotonic(), 0
            while begin < end:
                if sent >= window:
                    await asyncio.sleep(max(0, round_began + self.link.latency - time.monotonic()))
                    window *= 2
                    round_began, sent = time.monotonic(), 0
                data = file.read(min(CHUNK, end - begin, window - sent))
                await self.link.send(writer, data)
                begin += len(data)
                sent += len(data)
        return window


def write_safetensors(path, mib):
    """Some 200 tensors of equal sizes, of random bytes."""
    count = 200
    each = (mib << 20) // count // 4 * 4
    header = {f"layers.{i}.weight": {"dtype": "F32", "shape": [each // 4],
                                     "data_offsets": [i * each, (i + 1) * each]}
              for i in range(count)}
    text = json.dumps(header).encode()
    block = os.urandom(each)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for i in range(count):
            file.write(block[i:] + block[:i])


def main():
    cairn = os.path.abspath(sys.argv[1])
    mib, latency, mbit = [float(a) for a in sys.argv[2:5]] + [1024, 100, 1000][len(sys.argv) - 2:]
    folder = tempfile.mkdtemp(prefix="far-bench-")
    try:
        write_safetensors(f"{folder}/a.safetensors", int(mib))
        for name in NAMES:
            subprocess.run([cairn, "convert", f"{folder}/a.safetensors", f"{folder}/{name}"],
                           check=True, capture_output=True)
        ok = measure(cairn, folder, latency / 1000, mbit * 1e6 / 8)
    finally:
        shutil.rmtree(folder)
    sys.exit(0 if ok else 1)


def measure(cairn, folder, latency, rate):
    server = Server(Link(latency, rate), {name: f"{folder}/{name}" for name in NAMES})
    url = f"http://127.0.0.1:{server.port}"
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
                   "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": url,
                   "AWS_EC2_METADATA_DISABLED": "true"}
    size = {name: os.path.getsize(f"{folder}/{name}") for name in NAMES}
    print(f"{size['a.pt'] / 2**20:.0f} MiB, {latency * 1000:.0f} ms, {rate * 8e-6:.0f} Mbit/s")
    seconds = {}

    def run(what, name, command):
        before, start = server.requests, time.monotonic()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        seconds[what] = time.monotonic() - start
        share = size[name] / rate / seconds[what]
        times = seconds[what] / seconds["curl"]
        print(f"{what:26} {seconds[what]:6.2f} s  {share:4.2f} of the link  {times:5.2f} x curl  "
              f"{server.requests - before:4} requests", flush=True)
        return share

    run("curl", "a.pt", ["curl", "-sf", "-o", f"{folder}/curl", f"{url}/bucket/a.pt"])
    shares = [run(f"verify {name}", name, [cairn, "verify", "--full", f"s3://bucket/{name}"])
              for name in NAMES]
    run("copy", "a.pt", [cairn, "copy", "s3://bucket/a.pt", f"{folder}/copy.pt"])
    return min(shares) >= LEAST_SHARE and seconds["copy"] <= MOST_TIMES * seconds["curl"]


if __name__ == "__main__":
    main()
