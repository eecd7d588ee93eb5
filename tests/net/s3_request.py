"""A signed request to the S3 server of the environment, for what the tests' tools cannot do."""
import hashlib
import hmac
import http.client
import os
import time
import urllib.parse


def s3_request(method, path, query=None):
    """Returns (status, body). `path` is as in the URL; `query` is a dict, None for no value."""
    host = os.environ["S3_ENDPOINT_URL"].removeprefix("http://")
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    empty = hashlib.sha256(b"").hexdigest()
    scope = [now[:8], "us-east-1", "s3", "aws4_request"]
    headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": now}
    names = ";".join(sorted(headers))
    asked = "&".join(f"{name}={urllib.parse.quote(value or '', safe='')}"
                     for name, value in sorted((query or {}).items()))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"{method}\n{path}\n{asked}\n{lines}\n{names}\n{empty}"
    text = "\n".join(["AWS4-HMAC-SHA256", now, "/".join(scope),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    sign = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in [*scope, text]:
        sign = hmac.new(sign, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = ("AWS4-HMAC-SHA256 "
                                f"Credential={os.environ['AWS_ACCESS_KEY_ID']}/{'/'.join(scope)}, "
                                f"SignedHeaders={names}, Signature={sign.hex()}")
    client = http.client.HTTPConnection(host)
    client.request(method, path + (f"?{asked}" if asked else ""), headers=headers)
    answer = client.getresponse()
    return answer.status, answer.read()
