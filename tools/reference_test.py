#!/usr/bin/env python3
"""The pages that list what the sources have are complete, and name nothing that is not there.

1. docs/troubleshooting.md: each item that begins with "- **`PART`**" quotes a message. Its fixed
   parts, between "...", occur in the string literals of one source file.
2. docs/reference.md, "Environment variables": the variables that src/ reads, each in the first cell
   of a row, and no others.
3. docs/reference.md, "Exit codes": the codes and names of include/cairn/exit_code.h, and the code
   of a stopped run.
4. docs/reference.md, "Special files": every name of a file that begins with ".cairn" in src/.
5. docs/upgrading.md: a row for each [[deprecated]] name of the public headers, with its new name.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|\#[ ][^\n]*|  # a comment, also of CMake
                       R"(\w*)\((.*?)\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""",
                   re.DOTALL | re.VERBOSE)
ESCAPES = {"n": "\n", "t": "\t"}
SHORTEST = 12  # letters of a message's longest fixed part: a shorter one is found everywhere

# In capitals and with an underscore, in src/, and no variable of the environment.
NOT_VARIABLES = set("""
    AWS_PRESIGNED_URL AZURE_BLOBS AZURE_SAS_URI BACKWARD_POST BACKWARD_PRE DATA_LOSS
    DCP_SHARDING_INFO DCP_VERSION DEADLINE_EXCEEDED F6_E2M3 F6_E3M2 F8_E4M3 F8_E4M3FNUZ F8_E5M2
    F8_E5M2FNUZ F8_E8M0 FULL_OBJECT FULL_SHARD GCP_SIGNED_URL HYBRID_SHARD INTERNAL_ERROR
    INVALID_STATE MANIFEST_MD5 MEM_FORMAT_ENCODING NO_SHARD PERMISSION_DENIED POINT_IN_TIME
    REQUEST_LIMIT_EXCEEDED
    RESOURCE_EXHAUSTED SHARD_GRAD_OP TEMPORARILY_UNAVAILABLE _HYBRID_SHARD_ZERO2
    _MEM_FORMAT_ENCODING""".split())
# Set for a library, and not read.
ONLY_SET = {"CUBLAS_WORKSPACE_CONFIG", "NCCL_ASYNC_ERROR_HANDLING",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING"}
READ = re.compile(r'(?:\b(?:getenv|environment|is_set|number_of_environment|get)\(|'
                  r'\.(?:text|number|has)\(|take\([\w.]+, )"([A-Z][A-Z0-9_]*)"')
IN_CAPITALS = re.compile(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")


def literals(text):
    """The string literals of a source, adjacent ones joined."""
    found, end = [], None
    for token in TOKEN.finditer(text):
        kind = token.group()[0]
        if kind in "/#":
            # A comment between two literals does not part them.
            if end is not None and not text[end:token.start()].strip():
                end = token.end()
            continue
        if kind == "'":
            end = None
            continue
        value = token.group(2) if kind == "R" else re.sub(
            r"\\(.)", lambda m: ESCAPES.get(m.group(1), m.group(1)), token.group()[1:-1])
        if end is not None and not text[end:token.start()].strip():
            found[-1] += value
        else:
            found.append(value)
        end = token.end()
    return [value.replace("\n", " ") for value in found]


def shown(literal):
    """What a format string shows: fields as "...", doubled braces as one."""
    return re.sub(r"\{\{|\}\}|\{[^{}]*\}",
                  lambda m: m.group()[0] if len(m.group()) == 2 and m.group() != "{}" else "...",
                  literal)


def is_in(message, values):
    parts = [part for part in re.split(r"\s*\.\.\.\s*", message) if part]
    if not parts or max(map(len, parts)) < SHORTEST:
        return False
    texts = values + [shown(value) for value in values]
    return all(any(part in text for text in texts) for part in parts)


def unknown_messages(page, sources):
    """The quoted messages that no source has. `sources`: the literals of each."""
    quoted = re.findall(r"^- \*\*`(.+?)`\*\*$", page, re.MULTILINE)
    return [message for message in quoted if not any(is_in(message, one) for one in sources)]


def variables_read(sources):
    """`sources`: texts by path, below src/."""
    found = set()
    for text in sources.values():
        found |= set(READ.findall(text))
        found |= {value for value in literals(text) if IN_CAPITALS.fullmatch(value)}
    return found - NOT_VARIABLES - ONLY_SET


def section(page, heading):
    """The text below the heading, up to the next one of its level or above."""
    level, lines, inside = len(heading.split()[0]), [], False
    for line in page.split("\n"):
        hashes = re.match(r"(#+) ", line)
        if hashes and inside and len(hashes.group(1)) <= level:
            break
        inside = inside or line == heading
        if inside:
            lines.append(line)
    return "\n".join(lines)


def first_cells(text):
    return [cell for row in re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
            for cell in re.findall(r"`([^`]+)`", row)]


def exit_codes(header, options):
    codes = dict(re.findall(r"^  (k\w+) = (\d+),", header, re.MULTILINE))
    stopped = re.search(r"\binterrupted_exit_code = (\d+);", options).group(1)
    return {(number, name) for name, number in codes.items()} | {
        (stopped, "interrupted_exit_code")}


def codes_of_page(text):
    return set(re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE))


def deprecated_names(header):
    """(old, new) of each alias."""
    found = []
    for alias in re.finditer(r'\[\[deprecated\("use (\w+)(?:\(\))?"\)\]\](.*)', header):
        before = header[:alias.start()].rsplit("\n", 1)[-1]
        own = re.search(r"(\w+) $", before)  # an enumerator or a type, before the attribute
        name = own.group(1) if own else re.search(r"(\w+)(?:\(| = )", alias.group(2)).group(1)
        found.append((name, alias.group(1)))
    return found


class PagesTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        def texts(folder, *patterns):
            return {path.relative_to(ROOT).as_posix(): path.read_text()
                    for pattern in patterns for path in sorted((ROOT / folder).rglob(pattern))}
        cls.src = texts("src", "*.cpp", "*.h")
        cls.include = texts("include", "*.h")
        builds = {"CMakeLists.txt": (ROOT / "CMakeLists.txt").read_text(),
                  "quickstart": (ROOT / "quickstart").read_text(),
                  **texts("src", "CMakeLists.txt"), **texts("cmake", "*.cmake", "*.in")}
        cls.literals = [literals(text) for text in [*cls.src.values(), *cls.include.values(),
                                                    *builds.values()]]
        cls.page = {name: (ROOT / "docs" / f"{name}.md").read_text()
                    for name in ("troubleshooting", "reference", "upgrading")}

    def test_quoted_messages_are_those_of_the_sources(self):
        self.assertEqual(unknown_messages(self.page["troubleshooting"], self.literals), [])
        count = self.page["troubleshooting"].count("\n- **`")
        self.assertGreater(count, 50)

    def test_the_variables_are_those_that_are_read(self):
        listed = first_cells(section(self.page["reference"], "## Environment variables"))
        self.assertEqual(sorted(listed), sorted(set(listed)))
        self.assertEqual(set(listed), variables_read(self.src))

    def test_the_exit_codes_are_those_of_the_header(self):
        self.assertEqual(codes_of_page(section(self.page["reference"], "## Exit codes")),
                         exit_codes(self.include["include/cairn/exit_code.h"],
                                    self.include["include/cairn/train/options.h"]))

    def test_own_files_are_listed(self):
        names = {re.match(r"\.cairn[\w/.-]*?(?=-?X{6}|$)", value.lstrip("/")).group()
                 for text in self.src.values() for value in literals(text)
                 if value.lstrip("/").startswith(".cairn")}
        self.assertGreater(len(names), 5)
        page = section(self.page["reference"], "## Special files")
        self.assertEqual([name for name in sorted(names) if name not in page], [])

    def test_deprecated_names_are_listed(self):
        rows = [row for row in self.page["upgrading"].split("\n") if row.startswith("| `")]
        count = 0
        for path, text in self.include.items():
            self.assertEqual(len(deprecated_names(text)), text.count("[[deprecated"), path)
            for old, new in deprecated_names(text):
                count += 1
                self.assertTrue(any(re.search(rf"\b{old}\b.* \| .*\b{new}\b", row) for row in rows),
                                f"{path}: {old} is {new} now")
        self.assertGreater(count, 0)


class RulesTest(unittest.TestCase):
    """Each rule catches what it is for."""

    def test_literals_are_joined(self):
        text = 'f("a \\"b\\" " // why\n  "c", "d" + x + "e"); // "f"\ng(\'"\');'
        self.assertEqual(literals(text), ['a "b" c', "d", "e"])
        self.assertEqual(literals('message(STATUS "a "\n  "b")  # "c"'), ["a b"])

    def test_messages_are_looked_for_by_their_fixed_parts(self):
        text = '"the run \\"{}\\" is training already: {{a}} " + who + "; wait for it"'
        sources = [literals(text), ["another text of a file"]]
        page = ('- **`the run "..." is training already`**\n  Wait.\n'
                "- **`is training already: {a} ...; wait for it`**\n")
        self.assertEqual(unknown_messages(page, sources), [])
        for wrong in ("the run is training already", "is training already ... another text",
                      "training", "..."):
            self.assertEqual(unknown_messages(f"- **`{wrong}`**", sources), [wrong])

    def test_variables_are_found(self):
        self.assertEqual(variables_read({"a": 'getenv("HOME"); f("RUN_NAME", "NO_SHARD", "text"); '
                                              'variables.number("RANK")'}),
                         {"HOME", "RUN_NAME", "RANK"})

    def test_sections_end_with_the_next(self):
        page = "## A\n| `x`, `y` | z |\n### B\n| `b` | `c` |\n## C\n| `d` | e |\n"
        self.assertEqual(first_cells(section(page, "## A")), ["x", "y", "b"])

    def test_exit_codes_are_compared_with_their_names(self):
        self.assertEqual(exit_codes("  kDone = 0,\n", "int interrupted_exit_code = 75;"),
                         codes_of_page("| 0 | `kDone` | a |\n| 75 | `interrupted_exit_code` | b |"))

    def test_aliases_are_found(self):
        header = ('  kBack [[deprecated("use kNew")]] = kNew,\n'
                  'using PartOf [[deprecated("use Part")]] = Part;\n'
                  '[[deprecated("use rows()")]] at::Tensor own_rows(int p) const {\n'
                  '[[deprecated("use kMax")]] inline constexpr int kMost = 2;\n')
        self.assertEqual(deprecated_names(header), [("kBack", "kNew"), ("PartOf", "Part"),
                                                    ("own_rows", "rows"), ("kMost", "kMax")])


if __name__ == "__main__":
    unittest.main()
