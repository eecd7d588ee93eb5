"""A request to the Azure server of the environment, signed with its key (Shared Key)."""
import base64
import hashlib
import hmac
import http.client
import os
import time
import urllib.parse


def azure_request(method, path, query=None):
    """Returns (status, body). `path` follows the account in the URL; `query` is a dict."""
    endpoint = urllib.parse.urlsplit(os.environ["AZURE_STORAGE_SERVICE_ENDPOINT"])
    account = os.environ["AZURE_ACCOUNT_NAME"]
    query = query or {}
    headers = {"x-ms-date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
               "x-ms-version": "2021-12-02"}
    path = endpoint.path + path
    text = (method + "\n" * 12 +
            "".join(f"{name}:{headers[name]}\n" for name in sorted(headers)) +
            f"/{account}{path}" +
            "".join(f"\n{name}:{query[name]}" for name in sorted(query)))
    key = base64.b64decode(os.environ["AZURE_ACCOUNT_ACCESS_KEY"])
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {account}:{signature}"
    client = http.client.HTTPConnection(endpoint.netloc)
    client.request(method, path + "?" + urllib.parse.urlencode(query), headers=headers)
    answer = client.getresponse()
    return answer.status, answer.read()
