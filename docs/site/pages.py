"""Writes the sources of the site: a page for each public header, from Doxygen's XML, and copies of
the documents.

A document is a *.md of the root, one in docs/, and what these link to: a file that is not Markdown
becomes a page that shows it, and a folder without README.md a page that lists it. README.md is the
page of its folder.
"""
import collections
import os
import pathlib
import re
import xml.etree.ElementTree as ElementTree

from filter import filtered, page_of, without_joiner

# The folders of include/cairn/ in the order of the site.
FOLDERS = {
    "": "Values, errors, time",
    "checkpoint": "Checkpoints",
    "format": "Formats",
    "storage": "Stores",
    "train": "Training",
    "optim": "Optimizers",
    "schedulers": "Schedulers",
    "metrics": "Metrics",
    "callbacks": "Callbacks",
    "algorithms": "Algorithms",
    "loggers": "Loggers",
    "dist": "Several processes",
    "models": "Weights of Hugging Face",
}
MAP = "docs/README.md"  # its headings and links are the groups and pages of the sidebar
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".txt": "text", ".cmake": "cmake"}
LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]"                    # text
                  r"\((?!https?:|mailto:)([^()\s#]*)(#[^()\s]*)?\)")  # path and anchor
ORPHAN = "---\norphan: true\n---\n"  # to Sphinx: a page that the sidebar does not have
CODE = re.compile(r"^ *(?P<fence>```+|~~~+).*?^ *(?P=fence)`*$|(?P<tick>`+)[^`].*?(?P=tick)",
                  re.S | re.M)


def title(text, line="="):
    return f"{text}\n{line * len(text)}\n\n"


def write_headers(include, target):
    """The public headers as Doxygen reads them."""
    for path in include.rglob("*.h"):
        copy = target / path.relative_to(include)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(filtered(path.read_text()))


def compound(path):
    return ElementTree.parse(path).find("compounddef")


def declarations(xml):
    """{header: [(line, directive, name)]} of what the headers declare in namespaces."""
    found = collections.defaultdict(list)

    def add(node, kind, name):
        location = node.find("location")
        found[location.get("file").removeprefix("cairn/")].append(
            (int(location.get("line")), kind, name))

    for path in xml.glob("namespace*.xml"):
        namespace = compound(path)
        for inner in namespace.iter("innerclass"):
            if "<" not in inner.text:  # a specialisation is no news
                definition = compound(xml / f"{inner.get('refid')}.xml")
                add(definition, definition.get("kind"), inner.text)
        for member in namespace.iter("memberdef"):
            name = f"{namespace.findtext('compoundname')}::{member.findtext('name')}"
            arguments = member.findtext("argsstring") if member.get("kind") == "function" else ""
            add(member, member.get("kind"), name + arguments)
    return found


def summary(header):
    """The first sentence of a header's first comment."""
    comment = re.match(r"(?://[^\n]*\n)*", header.read_text())[0]
    paragraph = comment.replace("// ", "").replace("//", "").split("\n\n")[0]
    sentence = re.split(r"(?<=[^.]\.)\s", " ".join(paragraph.split()))[0]
    return re.sub(r"`([^`]*)`|([*_|\\])", lambda match: (
        f"``{match[1]}``" if match[2] is None else "\\" + match[2]), sentence)


def api_page(header, declared, overloads):
    text = title(f"cairn/{header}") + f".. doxygenfile:: cairn/{header}\n"
    text += "   :sections: briefdescription detaileddescription\n\n"
    for _, kind, name in sorted(declared):
        # Breathe compares arguments for an overloaded function, but not those of all types.
        name = name if overloads[name.partition("(")[0]] > 1 else name.partition("(")[0]
        text += f".. doxygen{kind}:: {name}\n"
        text += "   :members:\n   :undoc-members:\n\n" if kind in ("struct", "class") else "\n"
    return text


def toctree(entries, options=""):
    return f".. toctree::\n{options}\n" + "".join(f"   {entry}\n" for entry in entries) + "\n"


def write_api(include, xml, source):
    for path in xml.glob("*.xml"):
        path.write_text(without_joiner(path.read_text()))
    declared = declarations(xml)
    overloads = collections.Counter(name.partition("(")[0] for found in declared.values()
                                    for _, _, name in found)
    headers = collections.defaultdict(list)
    for path in sorted((include / "cairn").rglob("*.h")):
        header = str(path.relative_to(include / "cairn"))
        if not header.startswith("detail/"):
            headers[header.rpartition("/")[0]].append((header, summary(path)))
            page = api_page(header, declared[header], overloads)
            (source / f"{page_of(header)}.rst").write_text(page)
    if set(headers) != set(FOLDERS):
        raise SystemExit(f"pages.py: FOLDERS is not what include/cairn/ has: {sorted(headers)}")
    index = title("API reference") + (
        "Each page is one public header, in the header's order. Programs include\n"
        "``cairn/cairn.h``, or ``cairn/checkpoint.h`` if they do not use libtorch.\n\n")
    for folder, name in FOLDERS.items():
        table = "".join(f"* :doc:`cairn/{header} <{page_of(header)}>`: {text}\n"
                        for header, text in headers[folder])
        pages = [f"{pathlib.Path(header).name} <{page_of(header)}>"
                 for header, _ in headers[folder]]
        page = f"folder_{folder or 'cairn'}"
        (source / f"{page}.rst").write_text(
            title(name) + table + "\n" + toctree(pages, "   :hidden:\n"))
        index += title(name, "-") + table + "\n"
    index += toctree([f"folder_{folder or 'cairn'}" for folder in FOLDERS], "   :hidden:\n")
    (source / "index.rst").write_text(index)


def has_anchor(path, name):
    """Whether a document has such an anchor beside those of its headings."""
    return path.suffix == ".md" and re.search(f'<a (?:name|id)="{name}">', path.read_text())


def with_links(text, change):
    """A Markdown text in which change(match of LINK) replaces each link that is not code."""
    either = re.compile(f"(?P<link>{LINK.pattern})|{CODE.pattern}", re.S | re.M)
    return either.sub(
        lambda match: change(LINK.match(match[0])) if match["link"] else match[0], text)


class Documents:
    """Copies the documents, and follows their links."""

    def __init__(self, root, source):
        self.root, self.source = root, source
        self.waiting = [*sorted(root.glob("*.md")),
                        *(path for path in sorted((root / "docs").rglob("*.md"))
                          if root / "docs/site" not in path.parents)]
        self.documents = [self.page(path) for path in self.waiting]  # the pages of the sidebar

    def page(self, path):
        """The page of a file or folder, relative to the site, without its extension."""
        name = str(path.relative_to(self.root))
        if path.is_dir():
            return f"{name}/index".removeprefix("./")
        if path.name == "README.md":
            return f"{name[:-len('README.md')]}index"
        return name.removesuffix(".md")

    def copy_all(self):
        done = set()
        while self.waiting:
            path = self.waiting.pop(0)
            page = self.page(path)
            if page in done:
                continue
            done.add(page)
            target = self.source / f"{page}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                target.write_text(self.listing(path))
            elif path.suffix == ".md":
                target.write_text(("" if page in self.documents else ORPHAN) + self.copied(path))
            else:
                language = LANGUAGES.get(path.suffix, "text")
                target.write_text(f"{ORPHAN}# {path.relative_to(self.root)}\n\n"
                                  f"`````{language}\n{path.read_text().rstrip()}\n`````\n")

    def listing(self, folder):
        files = sorted(path for path in folder.iterdir() if path.suffix in [".md", *LANGUAGES])
        self.waiting += files
        here = folder.relative_to(self.root)
        lines = "".join(f"- [{path.name}]({os.path.relpath(self.page(path), here)}.md)\n"
                        for path in files)
        return f"{ORPHAN}# {here}\n\n{lines}"

    def target(self, path, name):
        """The file or folder that a document's link leads to."""
        target = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
        readme = target / "README.md"
        return readme if readme.exists() else target

    def copied(self, path):
        def follow(match):
            image, text, name, anchor = match[1], match[2], match[3], match[4] or ""
            target = self.target(path, name)
            if not target.exists() or self.root not in [target, *target.parents]:
                return match[0]  # Sphinx warns
            if image:
                copy = self.source / target.relative_to(self.root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(target.read_bytes())
                return match[0]
            self.waiting.append(target)
            page = os.path.relpath(self.page(target), os.path.dirname(self.page(path)) or ".")
            # MyST knows the anchors of headings only.
            if anchor and has_anchor(target, anchor[1:]):
                return f'<a href="{page}.html{anchor}">{text}</a>'
            return f"[{text}]({page + '.md' if name else ''}{anchor})"
        return with_links(path.read_text(), follow)


def sidebar(documents, root):
    """[(caption, pages)]: the groups of the map, and what it does not name."""
    path = root / MAP
    groups = [("", ["docs/index"])] if path.exists() else []
    known = {"index", "docs/index"}
    for part in re.split(r"^## ", path.read_text(), flags=re.M)[1:] if path.exists() else []:
        targets = [documents.target(path, match[3]) for match in LINK.finditer(part)]
        pages = [documents.page(target) for target in targets if target.suffix == ".md"]
        groups.append((part.partition("\n")[0].strip(),
                       [page for page in dict.fromkeys(pages) if page not in known]))
        known.update(pages)
    groups.append(("Reference", ["API <api/index>"]))
    groups.append(("More", [page for page in documents.documents if page not in known]))
    return groups


def write_documents(root, source):
    documents = Documents(root, source)
    documents.copy_all()
    trees = "".join("```{toctree}\n:hidden:\n" + (f":caption: {caption}\n" if caption else "") +
                    "\n" + "\n".join(pages) + "\n```\n"
                    for caption, pages in sidebar(documents, root) if pages)
    index = source / "index.md"
    index.write_text(f"{index.read_text()}\n{trees}")
