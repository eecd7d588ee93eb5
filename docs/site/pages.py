"""Writes the sources of the site: pages of the API from Doxygen's XML, and copies of the documents.

A document is README.md, another *.md of the root, anything in docs/, and what these link to: a file
that is not Markdown becomes a page that shows it, a folder a page that lists it.
"""
import collections
import os
import pathlib
import re
import xml.etree.ElementTree as ElementTree

from filter import page_of

# What a folder of include/cairn/ is about, in the order of the site.
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
}
DIRECTIVES = {"struct": "struct", "class": "class", "enum": "enum", "typedef": "typedef",
              "variable": "variable", "function": "function", "define": "define"}


def title(text, line="="):
    return f"{text}\n{line * len(text)}\n\n"


def declarations(xml):
    """{header: [(line, directive, name)]} of what the headers declare in namespaces."""
    found = collections.defaultdict(list)

    def add(node, kind, name):
        location = node.find("location")
        found[location.get("file").removeprefix("cairn/")].append(
            (int(location.get("line")), kind, name))

    for path in xml.glob("namespace*.xml"):
        namespace = ElementTree.parse(path).find("compounddef")
        for inner in namespace.iter("innerclass"):
            if "<" not in inner.text:  # a specialisation is no news
                definition = ElementTree.parse(xml / f"{inner.get('refid')}.xml").find("compounddef")
                add(definition, definition.get("kind"), inner.text)
        for member in namespace.iter("memberdef"):
            name = f"{namespace.findtext('compoundname')}::{member.findtext('name')}"
            arguments = member.findtext("argsstring") if member.get("kind") == "function" else ""
            add(member, member.get("kind"), name + arguments)
    return found


def api_page(header, declared):
    text = title(f"cairn/{header}")
    text += f".. doxygenfile:: cairn/{header}\n   :sections: briefdescription detaileddescription\n\n"
    for _, kind, name in sorted(declared):
        text += f".. doxygen{kind}:: {name}\n"
        text += "   :members:\n   :undoc-members:\n\n" if kind in ("struct", "class") else "\n"
    return text
