"""Turns the plain // comments of a public header into comments that Doxygen reads.

    // A comment before a declaration         becomes  /// A comment ...
    int field = 0;  // what follows one       becomes  int field = 0;  ///< what ...
    // The header's first comment, and others  become  /// \\file ...
    // that stand by themselves
    // --- Title --- in a class               becomes  a group of members, /// \\name Title
    [[deprecated("use g()")]]                 gets     /// Deprecated: use g().

Comments inside functions document nothing. Nothing in a comment is a command to Doxygen, and its
Markdown is off. This file knows the little that the headers use: `code`, *emphasis*, lines that
are indented by two more columns (code), and names of documents and headers (links).
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from cpp_blocks import SCOPE, code_only, without_template  # noqa: E402

COMMENT = re.compile(r"\s*// ?(.*)$")
TITLE = re.compile(r"-{3,} *(.*?) *-{3,}$")
DEPRECATED = re.compile(r'\[\[deprecated\("(.*?)"\)\]\]')
TO_A_TOOL = re.compile(r"NOLINT|clang-format")
DOCUMENT = re.compile(r"\b((?:docs/[\w/]+|[A-Z]{3,})\.md)(#[\w-]+)?")
HEADER = re.compile(r"\bcairn/([\w/]+)\.h\b")
# A class's name that is here only the first word of a sentence.
FIRST_WORD = re.compile(r"(^|[.:;(] )([A-Z][a-z]+)(?=[ ,:]|$)")
# A name that is a keyword to Doxygen (of IDL). The joiner, which nobody sees, makes it another name
# until without_joiner() removes it from the XML.
KEYWORD = re.compile(r"(?<=\w )(local)\b(?=\s*[=;])")
JOINER = "\u2060"


def page_of(header):
    """The name of the page of include/cairn/HEADER."""
    return header.removesuffix(".h").replace("/", "_")


def without_joiner(text):
    return text.replace(JOINER, "")


def escaped(text):
    return re.sub(r"([\\@&$#<>%\"]|--|(?<!\w)::)", r"\\\1", text)


def link(to, text):
    return f'<a href="{to}">{escaped(text)}</a>'


def linked(text):
    """The text, escaped, where names of documents and headers are links."""
    done, parts = 0, []
    for match in re.finditer(f"{DOCUMENT.pattern}|{HEADER.pattern}", text):
        document, anchor, header = match.groups()
        to = f"{page_of(header)}.html" if header else f"../{document[:-3]}.html{anchor or ''}"
        parts += [escaped(text[done:match.start()]), link(to, match[0])]
        done = match.end()
    return "".join(parts) + escaped(text[done:])


def prose(text):
    """A paragraph of a comment, as Doxygen's."""
    pieces = text.split("`")
    for i, piece in enumerate(pieces):
        if i % 2:
            pieces[i] = f"<code>{escaped(piece)}</code>"
        else:
            piece = re.sub(r"(?<![\w*])\*(\w[\w ]*)\*(?![\w*])", "\1\\1\2", linked(piece))
            piece = FIRST_WORD.sub(r"\1%\2", piece) if i == 0 else piece
            pieces[i] = piece.replace("\1", "<em>").replace("\2", "</em>")
    return "".join(pieces)


def described(lines):
    """The lines of a comment, without their slashes, as lines of a comment for Doxygen."""
    result, code, paragraph = [], [], []

    def end_paragraph():
        if paragraph:
            result.extend(prose("\n".join(paragraph)).split("\n"))
            paragraph.clear()

    def end_code():
        while code and not code[-1]:
            code.pop()
        if code:
            indent = min(len(line) - len(line.lstrip()) for line in code if line)
            result.extend(["\\code{.cpp}", *(line[indent:] for line in code), "\\endcode"])
            code.clear()

    for line in lines:
        if line.startswith("  ") or (code and not line):
            end_paragraph()
            code.append(line)
        elif line:
            end_code()
            paragraph.append(line)
        else:
            end_paragraph()
            result.append("")
    end_paragraph()
    end_code()
    return result


def kind_of(header):
    """What the braces after a header enclose: "namespace", "class", "enum" or "body", the rest."""
    header = without_template(re.sub(r"\[\[.*?\]\]", "", header))
    match = SCOPE.match(header)
    if not match or "(" in header:
        return "body"
    word = match[0].split()[-1]
    return {"namespace": "namespace", "extern": "namespace", "enum": "enum"}.get(word, "class")


class Line:
    """What the code around a line says about a comment on it."""

    def __init__(self, scopes, start):
        self.in_body = "body" in scopes
        self.in_class = scopes[-1:] == ["class"]
        self.in_namespace = scopes in ([], ["namespace"], ["namespace"] * 2)
        self.may_declare = not self.in_body and start is None  # a declaration may begin here

    def end(self, scopes, start):
        self.depth = len(scopes)
        self.start = start  # the line where the declaration began that goes on, or a class opened


def surroundings(code):
    """A Line for each line of a text without comments and literals."""
    lines, scopes = [Line([], None)], []
    start = opened = None  # (line, offset) of the present declaration, and of the scope just opened
    parentheses = 0
    for i, c in enumerate(code + "\n"):
        if c == "\n":
            lines[-1].end(scopes, (opened or start or [None])[0])
            opened = None
            lines.append(Line(scopes, start))
        if c.isspace():
            continue
        start = start or (len(lines) - 1, i)
        opened = None
        parentheses += (c == "(") - (c == ")")
        ended = c == ";" or c == "," and scopes[-1:] == ["enum"]
        if c == "{":
            scopes.append("body" if parentheses else kind_of(code[start[1]:i]))
            ended = scopes[-1] != "body"
            opened = start if ended else None
        elif c == "}" and scopes:
            ended = bool(scopes.pop())
        if ended and not parentheses and "body" not in scopes:
            start = None
    return lines


class Filter:
    def __init__(self, text):
        self.source = text.split("\n")
        code = code_only(text)
        self.code = [line.rstrip() for line in code.split("\n")]
        self.lines = surroundings(code)
        self.result = []  # a list of lines for each line of the source
        self.group = None  # the depth of the class where a group of members is open
        self.column = None  # of the comment after the code of the line before

    def run(self):
        begin = 0
        while begin < len(self.source):
            end = begin
            while end < len(self.source) and COMMENT.fullmatch(self.source[end]):
                end += 1
            if end > begin:
                self.block(begin, end)
            else:
                end = begin + 1
                self.code_line(begin)
            begin = end
        return "\n".join(line for lines in self.result for line in lines)

    def close_group(self):
        lines = [] if self.group is None else ["///@}"]
        self.group = None
        return lines

    def code_line(self, number):
        self.column = None
        line, text, code = self.lines[number], self.source[number], self.code[number]
        leaves_class = self.group is not None and line.depth < self.group
        self.result.append([*(self.close_group() if leaves_class else []), text])
        deprecated = None if line.in_body else DEPRECATED.search(text)
        if deprecated:
            self.result[-1][-1:-1] = ["///", f"/// <b>Deprecated</b>: {prose(deprecated[1])}."]
        begin = comment_begin(text)
        if begin is None or line.in_body or code.strip() in ("", "}"):
            return
        words = COMMENT.match(text[begin:])[1]
        if TO_A_TOOL.match(words):
            return
        if line.start is None:
            self.column = begin
            self.result[-1][-1] = f"{text[:begin]}///< {prose(words)}"
        else:
            self.result[line.start][-1:-1] = ["///", f"/// {prose(words)}"]

    def block(self, begin, end):
        """A comment of whole lines."""
        line, lines = self.lines[begin], []
        comment = [COMMENT.match(text)[1] for text in self.source[begin:end]]
        if self.source[begin].find("//") == self.column:  # goes on with the line before
            self.result += [[f"///< {prose(text)}"] for text in comment]
            return
        comment = [text for text in comment if not TO_A_TOOL.match(text)]
        title = TITLE.fullmatch(comment[0]) if comment else None
        if title:
            comment = comment[1:]
            if line.may_declare and line.in_class:
                lines = [*self.close_group(), f"/// \\name {escaped(title[1])}", "///@{"]
                self.group = line.depth
        documents = end < len(self.source) and self.code[end].strip() not in ("", "}", "};")
        if comment and line.may_declare and (documents or line.in_namespace):
            lines += [] if documents else ["/// \\file"]
            lines += [f"/// {text}".rstrip() for text in described(comment)]
            lines += [] if documents else [""]
        self.result += [lines, *([] for _ in range(end - begin - 1))]


def comment_begin(text):
    """Where the comment after a line's code begins, or None."""
    begin = len(code_only(text).rstrip())
    begin = text.find("//", begin)
    return None if begin < 0 else begin


def filtered(text):
    return KEYWORD.sub("\\1" + JOINER, Filter(text).run())
