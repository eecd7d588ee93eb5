#!/usr/bin/env python3
"""The static tool needs glibc 2.34 and nothing else of the machine that it runs on.

    static_tool_test.py CAIRN CAIRN_RUN DATA [FAKE_STORE]

Reads what the programs are linked with, and runs them in a root that has only the C library: with a
web server, a bucket and certificates where distributions have them. CAIRN_STATIC_ROOTS names
further roots, separated by colons: whole systems of other releases (tools/debian_root). FAKE_STORE
is missing if the tool is built without network stores.
"""
import contextlib
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

SKIPPED = 77
NEWEST_GLIBC = (2, 34)
C_LIBRARY = re.compile(r"ld-linux-x86-64\.so\.2|lib[cm]\.so\.6")
CERTIFICATE_FILES = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                     "/etc/ssl/ca-bundle.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                     "/etc/ssl/cert.pem"]
CHECKPOINT = "torch-2.14/protocol5.pt"
TOOL, RUN, DATA, FAKE_STORE = "", "", pathlib.Path(), ""


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(program):
    return re.findall(r"NEEDED +(\S+)", output_of("objdump", "-p", program))


class Root:
    """A folder that is the root of the programs that run in it."""

    def __init__(self, folder, variables=()):
        self.folder = folder
        self.variables = dict(variables)

    def path(self, name):
        path = pathlib.Path(str(self.folder) + str(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, *arguments, **variables):
        return subprocess.run(
            ["unshare", "--map-root-user", f"--root={self.folder}", "--wd=/", *arguments],
            env={"PATH": "/usr/bin:/bin", **self.variables, **variables}, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def bare_root(folder):
    """The C library of this machine, the tool and its command file, and a table of hosts."""
    root = Root(folder)
    loader = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
    shutil.copy(loader, root.path(loader))
    for line in output_of("ldd", TOOL).splitlines():
        if found := re.search(r"=> (/\S+)", line):
            shutil.copy(found[1], root.path(found[1]))
    root.path("/etc/hosts").write_text("127.0.0.1 localhost\n")
    for folder in ("/tmp", "/var/tmp"):
        root.path(folder + "/x").parent.chmod(0o1777)
    return put_tool(root, "/bin")


def put_tool(root, folder):
    for program in (TOOL, RUN):
        shutil.copy(program, root.path(f"{folder}/{pathlib.Path(program).name}"))
    shutil.copy(DATA / CHECKPOINT, root.path(f"{folder}/a.pt"))
    return root


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server(folder, certificate=None):
    """Serves a folder on a free port of loopback: HTTPS if there is a certificate."""
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        scheme = "https" if certificate else "http"
        try:
            yield f"{scheme}://localhost:{server.server_port}/a.pt"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def bucket(folder):
    """The variables of a bucket's server."""
    with subprocess.Popen([FAKE_STORE, "s3", os.path.join(folder, "requests")],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            said = json.loads(server.stdout.readline())
            yield {"S3_ENDPOINT_URL": said["url"], "AWS_ACCESS_KEY_ID": said["key"],
                   "AWS_SECRET_ACCESS_KEY": said["secret"], "AWS_DEFAULT_REGION": said["region"]}
        finally:
            server.stdin.close()  # The server ends then.


def make_certificate(folder):
    """One PEM file with the key and a certificate of localhost, and the certificate alone."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key,
                    "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    both = folder / "both.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both, certificate


class Linked(unittest.TestCase):
    def test_the_c_library_is_all_that_is_needed(self):
        for program in (TOOL, RUN):
            for library in needed(program):
                self.assertRegex(library, f"^({C_LIBRARY.pattern})$", program)

    def test_no_function_is_newer_than_glibc_2_34(self):
        for program in (TOOL, RUN):
            symbols = re.findall(r"GLIBC_(\d+)\.(\d+)\S* +(\S+)",
                                 output_of("objdump", "-T", program))
            self.assertGreater(len(symbols), 100, program)
            newer = [s for s in symbols if (int(s[0]), int(s[1])) > NEWEST_GLIBC]
            self.assertEqual(newer, [], program)


class RootTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def check(self, done, code=0, has=""):
        self.assertEqual(done.returncode, code, done.stdout)
        self.assertIn(has, done.stdout)


class BareRoot(RootTest):
    def test_files(self):
        root = bare_root(self.folder / "root")
        self.check(root.run("/bin/cairn", "--version"), has="cairn ")
        self.check(root.run("/bin/cairn-run", "--version"), has="cairn")
        self.check(root.run("/bin/cairn", "ls", "/bin"), has="a.pt")
        self.check(root.run("/bin/cairn", "verify", "/bin/a.pt"), has="a.pt")
        self.check(root.run("/bin/cairn", "convert", "/bin/a.pt", "/tmp/b.pt.zst"))
        self.check(root.run("/bin/cairn", "diff", "/bin/a.pt", "/tmp/b.pt.zst"))
        (self.folder / "root/tmp/cut.pt").write_bytes((DATA / CHECKPOINT).read_bytes()[:500])
        self.check(root.run("/bin/cairn", "verify", "/tmp/cut.pt"), code=1, has="cut.pt")

    def test_sftp_needs_ssh(self):
        root = bare_root(self.folder / "root")
        done = root.run("/bin/cairn", "ls", "sftp://host/folder")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ssh is not in the PATH", done.stdout)


class Network(RootTest):
    def setUp(self):
        if not FAKE_STORE:
            self.skipTest("built without network stores")
        super().setUp()
        self.root = bare_root(self.folder / "root")

    def tool(self, *arguments, **variables):
        return self.root.run("/bin/cairn", *arguments, **variables)

    def test_web_server(self):
        with web_server(self.root.path("/bin")) as url:
            self.check(self.tool("verify", url), has="a.pt")
            self.check(self.tool("copy", url, "/tmp/a.pt"))
        self.check(self.tool("diff", "/bin/a.pt", "/tmp/a.pt"))

    def test_bucket(self):
        with bucket(self.folder) as variables:
            self.check(self.tool("copy", "/bin/a.pt", "s3://bucket/run/a.pt", **variables))
            self.check(self.tool("ls", "s3://bucket/run", **variables), has="a.pt")
            self.check(self.tool("verify", "s3://bucket/run/a.pt", **variables), has="a.pt")
            self.check(self.tool("copy", "s3://bucket/run/a.pt", "/tmp/b.pt", **variables))
        self.check(self.tool("diff", "/bin/a.pt", "/tmp/b.pt"))

    def test_certificates_are_found_where_distributions_have_them(self):
        both, certificate = make_certificate(self.folder)
        with web_server(self.root.path("/bin"), both) as url:
            refused = self.tool("verify", url)
            self.assertNotEqual(refused.returncode, 0, refused.stdout)
            self.assertIn("install the package ca-certificates", refused.stdout)
            for file in CERTIFICATE_FILES:
                shutil.copy(certificate, self.root.path(file))
                self.check(self.tool("verify", url), has="a.pt")
                self.root.path(file).unlink()

    def test_variables_name_certificates(self):
        both, certificate = make_certificate(self.folder)
        shutil.copy(certificate, self.root.path("/own/ca.pem"))
        subprocess.run(["openssl", "rehash", self.root.path("/own")], check=True)
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(make_certificate(other)[1], self.root.path(CERTIFICATE_FILES[0]))
        with web_server(self.root.path("/bin"), both) as url:
            refused = self.tool("verify", url)
            self.assertNotEqual(refused.returncode, 0, refused.stdout)
            self.assertNotIn("install the package", refused.stdout)
            self.check(self.tool("verify", url, SSL_CERT_FILE="/own/ca.pem"), has="a.pt")
            self.check(self.tool("verify", url, CURL_CA_BUNDLE="/own/ca.pem"), has="a.pt")
            self.check(self.tool("verify", url, SSL_CERT_DIR="/own"), has="a.pt")

    def test_the_configuration_of_another_openssl_is_not_read(self):
        both, certificate = make_certificate(self.folder)
        shutil.copy(certificate, self.root.path(CERTIFICATE_FILES[0]))
        broken = self.root.path("/usr/lib/ssl/openssl.cnf")
        broken.write_text("config_diagnostics = 1\nopenssl_conf = all\n[all]\nproviders = some\n"
                          "[some]\nmissing = its\n[its]\nmodule = /missing.so\nactivate = 1\n")
        with web_server(self.root.path("/bin"), both) as url:
            self.check(self.tool("verify", url), has="a.pt")
            self.check(self.tool("dump", "/bin/a.pt"))


class OtherSystems(RootTest):
    def test_they_run_it(self):
        roots = os.environ.get("CAIRN_STATIC_ROOTS", "")
        if not roots:
            self.skipTest("CAIRN_STATIC_ROOTS names none")
        for root in map(Root, roots.split(":")):
            folder = tempfile.mkdtemp(prefix="cairn-static-", dir=root.path("/tmp/x").parent)
            self.addCleanup(shutil.rmtree, folder)
            inside = folder.removeprefix(str(root.folder))
            put_tool(root, inside)
            self.check(root.run(f"{inside}/cairn", "--version"), has="cairn ")
            self.check(root.run(f"{inside}/cairn", "ls", inside), has="a.pt")
            self.check(root.run(f"{inside}/cairn", "verify", f"{inside}/a.pt"), has="a.pt")
            if FAKE_STORE:
                with web_server(folder) as url:
                    self.check(root.run(f"{inside}/cairn", "verify", url), has="a.pt")


def main():
    global TOOL, RUN, DATA, FAKE_STORE
    TOOL, RUN, DATA = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    FAKE_STORE = sys.argv[4] if len(sys.argv) > 4 else ""
    tried = subprocess.run(["unshare", "--map-root-user", "true"], check=False)
    if tried.returncode != 0 or not shutil.which("objdump"):
        print("skipped: needs objdump and user namespaces (unshare)")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    main()
