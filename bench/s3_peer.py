#!/usr/bin/env python3
"""One transfer by boto3, for s3_bench: s3_peer.py URL upload|download BYTES FILE

Prints the seconds that it took, without starting Python; exits with 77 when there is no boto3.
Defaults of its own: parts of 8 MiB, 10 threads.
"""
import sys
import time

try:
    import boto3
except ImportError:
    sys.exit(77)

url, way, size, file = sys.argv[1:]
client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="AKID",
                      aws_secret_access_key="secret")
client.head_object(Bucket="bucket", Key="zeros-1")  # connections are made
start = time.perf_counter()
if way == "upload":
    client.upload_file(file, "bucket", "boto3")
else:
    client.download_file("bucket", "zeros-" + size, file)
print(time.perf_counter() - start)
