#!/usr/bin/python3
"""The package's tests with newer PyTorches: one library for all of them.

usage: torch_folders_test.py LIBRARY      (libcairn-c.so of the build)

In each Debian that CAIRN_TORCH_ROOT names; skipped without one.
"""
import pathlib
import shutil
import subprocess
import sys

import package

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
TESTS = package.ROOT / "tests" / "python_package"


def main():
    failed = []
    for root in package.torch_folders("torch", "pytest"):
        print("==", root.path, flush=True)
        with root.folder() as folder:
            package.copy_package(LIBRARY, folder)
            tests = folder / "tests"
            tests.mkdir()
            for file in TESTS.glob("*.py"):
                shutil.copy(file, tests)
            try:
                root.run(HERE / "run_pytest.py", [tests, "-q", "-p", "no:cacheprovider"], folder,
                         [f"PYTHONPATH={root.inside(folder)}"])
            except subprocess.CalledProcessError:
                failed.append(str(root.path))
    sys.exit(f"failed in {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
