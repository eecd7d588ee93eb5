#!/usr/bin/env python3
"""docs/from_composer.md says of each public name of Composer whether it is here.

    composer_names_test.py REPOSITORY

Each name of tests/data/composer_names.txt is in the first column of a table, or in running text, of
the section "What is here, and what is not". Each name of a second column is one of a public header,
or of the tool.
"""
import pathlib
import re
import sys

SECTION = re.compile(r"^## What is here, and what is not\n(.*?)^## ", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_][\w-]*")


def words(text):
    return {name for span in SPAN.findall(text) for name in NAME.findall(span)}


def read_names(path):
    groups, group = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("["):
            group = groups.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            group += line.split()
    return groups


def read_page(path):
    """The names of the first columns and of running text, and those of the second columns."""
    (section,) = SECTION.findall(path.read_text())
    composers, ours = set(), set()
    for line in section.splitlines():
        cells = line.strip().strip("|").split(" | ")
        is_row = line.startswith("|") and len(cells) > 1
        composers |= words(cells[0] if is_row else line)
        ours |= words(cells[1]) if is_row else set()
    return composers, ours


def main():
    root = pathlib.Path(sys.argv[1])
    composers, ours = read_page(root / "docs/from_composer.md")
    groups = read_names(root / "tests/data/composer_names.txt")
    problems = [f"docs/from_composer.md does not name {name} ({group})"
                for group, names in groups.items() for name in names if name not in composers]
    code = " ".join(path.read_text() for folder in ("include", "src/cli")
                    for path in sorted((root / folder).rglob("*.*")) if path.is_file())
    code = set(NAME.findall(code)) | {"cairn-run"}
    problems += [f"docs/from_composer.md: no header has {name}" for name in sorted(ours - code)]
    print("\n".join(problems) or f"{sum(map(len, groups.values()))} names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
