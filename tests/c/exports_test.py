#!/usr/bin/env python3
"""exports_test.py LIBRARY HEADER: the library exports what the header declares, and needs glibc."""
import re
import subprocess
import sys

NEWEST_GLIBC = (2, 34)


def lines_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          check=True).stdout.splitlines()


def main(library, header):
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"//.*", "", file.read())
    declared = set(re.findall(r"\b(cairn_\w+)\(", text))
    exported = {line.split()[-1] for line in lines_of("nm", "-D", "--defined-only", library)}
    assert len(declared) > 20, declared
    assert exported == declared, exported ^ declared
    needed = {line.split()[-1] for line in lines_of("objdump", "-p", library) if "NEEDED" in line}
    others = {name for name in needed if not re.match(r"lib[cm]\.so|ld-linux", name)}
    assert not others, others
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", "\n".join(lines_of("objdump", "-T", library)))
    assert versions
    assert max((int(a), int(b)) for a, b in versions) <= NEWEST_GLIBC, max(versions)


if __name__ == "__main__":
    main(*sys.argv[1:])
