#!/usr/bin/env python3
"""One transfer by boto3, for s3_bench: s3_peer.py URL upload|download OBJECT FILE
Or an address for curl: s3_peer.py URL sign OBJECT put_object|get_object

The first prints the seconds that it took, without starting Python, and those of the processor.
Keys and certificates are those of the environment. Defaults of its own: parts of 8 MiB, 10 threads.
"""
import sys
import time

import boto3

url, way, name, file = sys.argv[1:]
client = boto3.client("s3", endpoint_url=url)
if way == "sign":
    print(client.generate_presigned_url(file, Params={"Bucket": "bucket", "Key": name}))
    sys.exit()
client.head_object(Bucket="bucket", Key="zeros-1")  # connections are made
start = time.perf_counter()
cpu = time.process_time()
if way == "upload":
    client.upload_file(file, "bucket", name)
else:
    client.download_file("bucket", name, file)
print(time.perf_counter() - start, time.process_time() - cpu)
