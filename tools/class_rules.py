"""Rules of tidy.py about classes and folders: what one person can hold in mind."""
import collections
import os
import re

from cpp_blocks import (CALLED, NAMESPACE, NAMELESS, blocks, code_only, line_of,
                        linked_names)

MAX_FIELDS = 15
MAX_FUNCTIONS = 25  # constructors, destructors and what is defaulted or deleted do not count
MAX_FILES = 5  # that define functions of one class
MAX_IN_FOLDER = 25

# Composer's contract: the names of these fields are given.
OPTIONS = {"CheckpointSaverOptions", "S3Options", "State", "TrainerOptions"}
# Other classes that are larger, and why.
LARGER = {
    "Callback": "a method for each event of Composer",
    "Converter": "a method for each kind of pickled object",
    "Encoder": "a method for each kind of Value",
    "Machine": "a method for each opcode of pickle",
    "Pickler": "a method for each opcode of pickle",
    "RemoteContainer": "what a store of objects must answer, and its twin on folders",
    "SaveJob": "what every way to save is translated into",
    "Value": "a question and an access for each kind",
    "WandbStore": "what a store must answer, and its artifacts",
}
# What dynamic_cast may not ask: a feature says what such an object can do.
ASKED_BY_FEATURES = re.compile(r"dynamic_cast<\s*(?:const\s+)?(\w*(?:Store|Saver|Source))\b")
# Casts that do no such thing, and why.
CASTS = {
    "CheckpointSaver": "a Trainer looks for the savers among its callbacks",
}

NO_MEMBER = re.compile(
    r"\s*(?:using|typedef|friend|static_assert|enum|class|struct|union|static)\b")
CLASS = re.compile(r"\b(?:class|struct|union)\s+(?:\[\[[^]]*\]\]\s*)?([\w:]+)(?:\s+final)?"
                   r"\s*(?::(?!:)|$)")


def class_name(header):
    """Of the header of a class's body; None of anything else's."""
    found = CLASS.search(header.strip())
    return found[1] if found and not re.search(r"\benum\b", header) else None


def is_function(header):
    called = CALLED.search(header)
    before = header[:called.start()] if called else "="
    return "=" not in before and before.count("<") == before.count(">")


def members(text):
    """Yields (class, "field" or "function") of what the classes of a file declare, and (class,
    None) of each class itself, with its line."""
    for kind, header, line, _, scopes in blocks(text):
        scopes = [s for s in scopes if not NAMESPACE.match(s) and not NAMELESS.match(s)]
        names = [class_name(s) for s in scopes]
        if None in names:  # in a function, or a list of values
            continue
        owner = "::".join(names)
        if kind == "scope" and class_name(header):
            yield "::".join([*names, class_name(header)]), None, line
        elif owner and header.strip() and not NO_MEMBER.match(header):
            if kind != "scope" and is_function(header):
                own = CALLED.search(header)[1].split("::")[-1].lstrip("~")
                if own != names[-1] and not re.search(r"=\s*(?:delete|default)\s*$", header):
                    yield owner, "function", line
            elif kind != "function":
                yield owner, "field", line


def class_sizes(tree):
    named = set()
    for path, text in tree.items():
        if not path.endswith((".h", ".cpp")) or not path.startswith(("src/", "include/")):
            continue
        count, first = collections.Counter(), {}
        for owner, what, line in members(text):
            count[owner, what] += 1
            if what is None:
                first[owner] = line
        for owner, line in first.items():
            fields, functions = count[owner, "field"], count[owner, "function"]
            if fields <= MAX_FIELDS and functions <= MAX_FUNCTIONS:
                continue
            named.add(owner)
            if owner in OPTIONS | LARGER.keys():
                continue
            yield path, line, (f"{owner} has {fields} fields and {functions} functions (limits "
                               f"{MAX_FIELDS} and {MAX_FUNCTIONS})")
    if "tools/class_rules.py" in tree:
        for owner in (OPTIONS | LARGER.keys()) - named:
            yield "tools/class_rules.py", 1, f"{owner} is within the limits, and needs no exception"


def class_files(tree):
    """A class in many files has no place where it can be read."""
    files = collections.defaultdict(set)
    for path, text in tree.items():
        if path.startswith("src/") and path.endswith(".cpp"):
            for name, _ in linked_names(text, "function"):
                if "::" in name:
                    files[name.rsplit("::", 1)[0]].add(path)
    for owner, where in files.items():
        folders = {os.path.dirname(path) for path in where}
        if len(folders) == 1 and len(where) > MAX_FILES:  # else it is two classes of one name
            yield min(where), 1, f"{owner} is defined in {len(where)} files (limit {MAX_FILES})"


def casts(tree):
    for path, text in tree.items():
        if not path.startswith("src/"):
            continue
        for match in ASKED_BY_FEATURES.finditer(code_only(text)):
            if match[1] not in CASTS:
                yield path, line_of(text, match.start()), (
                    f"dynamic_cast to {match[1]}: ask what it can do, not what it is")


def folder_sizes(tree):
    files = collections.Counter(os.path.dirname(path) for path in tree
                                if path.startswith(("src/", "include/")))
    for folder, count in files.items():
        if count > MAX_IN_FOLDER:
            yield folder, 1, f"{count} files in one folder (limit {MAX_IN_FOLDER})"


CLASS_RULES = [class_sizes, class_files, casts, folder_sizes]
