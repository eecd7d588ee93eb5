"""Links between documents: every relative one leads to a file, and its anchor to a heading.

Also what code and its messages say of documents (`docs/x.md`, `docs/x.md#y`), and the text of files
that a page shows whole. A rule for tidy.py.
"""
import os
import pathlib
import posixpath
import re

from cpp_blocks import blank, line_of
from doc_blocks import shown_files

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *(```+).*?^ *\1[ \t]*$", re.M | re.S)
INLINE_CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\(\s*([^)\s]+)(?:\s+\"[^\"]*\")?\s*\)|^\[[^]\n]+\]:\s*(\S+)", re.M)
HEADING = re.compile(r"^#{1,6} +(.*?)[ #]*$", re.M)
NAME = re.compile(r"<a (?:name|id)=\"([^\"]+)\"")
MENTION = re.compile(r"\bdocs/[\w./-]+\.md(?:#[\w-]+)?")


def anchors(page):
    """The anchors of a page, as GitHub makes them from headings."""
    found = set(NAME.findall(page))
    for heading in HEADING.findall(FENCE.sub(blank, page)):
        text = re.sub(r"<[^>]*>|\]\([^)]*\)", "", heading)
        slug = re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        again = (f"{slug}-{n}" for n in range(1, 100))
        found.add(next(a for a in again if a not in found) if slug in found else slug)
    return found


def links(path, text):
    """(offset, target as a path of the tree) of each relative link, or mention in code."""
    if not path.endswith(".md"):
        for match in MENTION.finditer(text):
            yield match.start(), match[0]
        return
    prose = INLINE_CODE.sub(blank, FENCE.sub(blank, text))
    for match in LINK.finditer(prose):
        target = match[1] or match[2]
        if target.startswith("#"):
            yield match.start(), path + target
        elif not re.match(r"[a-z]+:", target):
            yield match.start(), posixpath.join(posixpath.dirname(path), target)


def documents(tree):
    folders = {parent.as_posix() for path in tree for parent in pathlib.PurePath(path).parents}
    for path, text in tree.items():
        if path.startswith("tools/"):  # these speak of pages that are not there
            continue
        for offset, target in links(path, text):
            name, _, anchor = target.partition("#")
            name = posixpath.normpath(name)
            # What tidy does not read, such as an image, is on the disk.
            if name not in tree and name not in folders and not os.path.exists(ROOT / name):
                yield path, line_of(text, offset), f"links to {name}, which is not there"
            elif anchor and name in tree and anchor not in anchors(tree[name]):
                yield path, line_of(text, offset), f"links to {target}, which is no heading there"
        if path.endswith(".md"):
            for line, message in shown_files(path, text, tree.get):
                yield path, line, message
