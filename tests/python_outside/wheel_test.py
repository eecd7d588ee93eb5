#!/usr/bin/python3
"""tools/wheel makes a wheel that pip installs without a network, and that works there.

usage: wheel_test.py LIBRARY      (libcairn-c.so of the build)
"""
import base64
import csv
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(sys.argv.pop(1)).resolve()


def load_tool():
    loader = importlib.machinery.SourceFileLoader("wheel_tool", str(ROOT / "tools" / "wheel"))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


TOOL = load_tool()


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temp.name)
        cls.wheel = TOOL.write_wheel(LIBRARY, cls.folder / "first")

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def test_the_record_has_every_file_with_its_hash(self):
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
            (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            self.assertEqual(sorted(names), sorted(row[0] for row in rows))
            for name, digest, size in rows:
                if name != record:
                    data = archive.read(name)
                    kind, _, text = digest.partition("=")
                    self.assertEqual(kind, "sha256")
                    self.assertEqual(base64.urlsafe_b64decode(text + "=="),
                                     hashlib.sha256(data).digest(), name)
                    self.assertEqual(int(size), len(data), name)
        for name in ("cairn/__init__.py", "cairn/py.typed", "cairn/composer.py",
                     "cairn/libcairn-c.so"):
            self.assertIn(name, names)

    def test_two_builds_have_the_same_bytes(self):
        os.environ["SOURCE_DATE_EPOCH"] = "1700000000"
        try:
            wheels = [TOOL.write_wheel(LIBRARY, self.folder / name) for name in ("a", "b")]
        finally:
            del os.environ["SOURCE_DATE_EPOCH"]
        self.assertEqual(wheels[0].read_bytes(), wheels[1].read_bytes())
        with zipfile.ZipFile(wheels[0]) as archive:
            self.assertEqual({entry.date_time for entry in archive.infolist()},
                             {(2023, 11, 14, 22, 13, 20)})

    def test_what_an_older_linux_lacks_is_named(self):
        symbols = ("0000 DF *UND* 0000 (GLIBC_2.34) ok\n0000 DF *UND* 0000  GLIBC_2.2.5 old\n"
                   "0000 DF *UND* 0000 (GLIBC_2.35) _dl_find_object\n")
        self.assertEqual(TOOL.too_new(symbols), ["_dl_find_object@GLIBC_2.35"])

    def test_a_file_that_is_no_library_is_refused(self):
        path = self.folder / "text.so"
        path.write_text("not a library at all")
        ended = subprocess.run([ROOT / "tools" / "wheel", path, self.folder], text=True,
                               capture_output=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("is no library of", ended.stderr)

    def test_it_works_in_a_new_environment(self):
        environment = self.folder / "environment"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", environment], check=True)
        python = environment / "bin" / "python"
        # pip of the machine, for the new environment.
        subprocess.run(["/usr/bin/python3", "-m", "pip", "--quiet", "--python", python, "install",
                        "--no-index", self.wheel], check=True)
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith(("CAIRN_", "PYTHON"))}

        def run(*command):
            return subprocess.run(command, check=True, capture_output=True, text=True, env=clean,
                                  cwd=self.folder).stdout

        session = ("import cairn\n"
                   "cairn.save({'step': 3, 'name': 'x'}, 'state.pt')\n"
                   "print(cairn.load('state.pt'), cairn.__file__)\n")
        printed = run(python, "-c", session)
        self.assertTrue(printed.startswith("{'step': 3, 'name': 'x'} "), printed)
        self.assertIn(str(environment), printed)
        for tool in ([environment / "bin" / "cairn"], [python, "-m", "cairn"]):
            self.assertIn(TOOL.version(), run(*tool, "--version"))
            self.assertIn("state.pt", run(*tool, "verify", "state.pt"))


if __name__ == "__main__":
    unittest.main()
