#!/usr/bin/env python3
"""Compiles a file of mistakes, and checks the compiler's message for each.

    expect_errors.py FILE COMPILER [ARGUMENT...]

The line after a line "// says: TEXT" must not compile. The compiler's message for it, including
the lines of headers that it shows, must contain TEXT (or BY_COMPILER). No other line of FILE or of
cairn's headers may have an error.
"""
import os
import re
import subprocess
import sys

SAYS = "// says: "
# GCC 16 says this for X{.field = ...}, and shows no constructor of X, whose line would say more.
BY_COMPILER = "designated initializers cannot be used with a non-aggregate type"


def mistakes_in(path):
    """{line number: TEXT}"""
    with open(path, encoding="utf-8") as file:
        return {number + 1: line.strip()[len(SAYS):]
                for number, line in enumerate(file, 1) if line.strip().startswith(SAYS)}


def said_of_lines(path, output):
    """{line number of an error in `path`: its whole message}; errors in cairn's headers: 0."""
    begins = re.compile(r"(.*?):(\d+):\d+: (?:fatal )?error: ")
    said = {}
    number = None
    for line in output.splitlines():
        begin = begins.match(line)
        if begin:
            is_here = os.path.basename(begin[1]) == os.path.basename(path)
            number = int(begin[2]) if is_here else 0 if "include/cairn/" in begin[1] else None
        if number is not None:
            said[number] = said.get(number, "") + line + "\n"
    return said


def main():
    path = sys.argv[1]
    environment = dict(os.environ, LC_ALL="C")
    ran = subprocess.run(sys.argv[2:] + ["-fsyntax-only", path], env=environment, text=True,
                         check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    version = subprocess.run([sys.argv[2], "-dumpversion"], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    is_gcc_16 = int(version.split(".")[0]) >= 16 and "g++" in os.path.realpath(sys.argv[2])
    mistakes = mistakes_in(path)
    said = said_of_lines(path, ran.stdout)
    wrong = []
    for number, text in mistakes.items():
        if number not in said:
            wrong.append(f"{path}:{number}: compiles")
        elif text not in said[number] and not (is_gcc_16 and BY_COMPILER in said[number]):
            wrong.append(f"{path}:{number}: the message lacks: {text}\n{said[number]}")
    for number in said.keys() - mistakes.keys():
        wrong.append(f"{path}:{number}: an unexpected error:\n{said[number]}")
    print("\n".join(wrong))
    print(f"{len(mistakes) - len(wrong)} of {len(mistakes)} mistakes name what to write instead")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
