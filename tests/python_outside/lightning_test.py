#!/usr/bin/python3
"""Lightning saves and resumes through cairn.lightning: the real one, from its source.

usage: lightning_test.py LIBRARY      (libcairn-c.so of the build)

Skipped without CAIRN_FRAMEWORKS (see fetch_frameworks) and a Debian with its other packages.
"""
import pathlib
import sys

import package

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
SCRIPT = pathlib.Path(__file__).with_name("lightning_run.py")


def main():
    for root in package.torch_folders("torch", "yaml", "tqdm", "fsspec", "packaging",
                                      "typing_extensions.py"):
        with root.folder() as folder:
            package.copy_package(LIBRARY, folder)
            package.copy_frameworks(folder)
            root.run(SCRIPT, [folder / "checkpoints"], folder,
                     [f"PYTHONPATH={root.inside(folder)}"])


if __name__ == "__main__":
    main()
