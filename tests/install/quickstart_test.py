#!/usr/bin/env python3
"""Checks that ./quickstart names a step that fails, and the file that has its whole output.

    quickstart_test.py QUICKSTART

Runs it in a folder where the programs that it calls are replaced, so that one of them fails.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ("tools/install_packages", "path/cmake", "build/release/bin/digits",
            "build/release/bin/compare_weights")


def write_program(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + lines)
    path.chmod(0o755)


def fail_at(quickstart, broken):
    """Returns quickstart's exit code, its last line, and the text of the file that this names."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copy(quickstart, folder)
        for program in PROGRAMS:
            write_program(folder / program, "exit 0\n")
        # quickstart has this program killed at a batch.
        write_program(folder / "build/release/bin/digits",
                      'case "$*" in *--kill-at-batch*) kill -9 $$ ;; esac\n')
        write_program(folder / broken, "echo what went wrong\nexit 3\n")
        environment = {"PATH": f"{folder}/path:{os.environ['PATH']}", "CMAKE_PREFIX_PATH": "/no"}
        ran = subprocess.run(["./quickstart"], cwd=folder, env=environment, text=True, check=False,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        last = ran.stderr.splitlines()[-1]
        log = folder / last.rpartition(" ")[2]
        return ran.returncode, last, log.read_text() if log.is_file() else ""


def main():
    steps = ("1. Packages", "2. Build", "3. Train", "4. Compare")
    for broken, step in zip(PROGRAMS, steps):
        code, last, text = fail_at(sys.argv[1], broken)
        assert code == 3, (broken, code)
        assert f'step "{step}" failed (exit code 3)' in last, (broken, last)
        assert "what went wrong" in text, (broken, last)
        print(last)


if __name__ == "__main__":
    main()
