"""The parts of a C++ file, found by their braces: functions, classes and what is in them.

No parser: it reads the style of this project, which clang-format holds. tidy.py's rules ask it.
"""
import functools
import re


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


CODE_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"  # not the ' of 1'000
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    r"|\b(?:public|private|protected)\s*:(?!:)", re.S | re.M)


def code_only(text):
    """The text without comments, literals, preprocessor lines and access specifiers: they become
    blanks, so that offsets and lines stay."""
    return CODE_NOISE.sub(blank, text)


SCOPE = re.compile(r"\s*(?:(?:inline|typedef|export|static|const)\s+)*"
                   r"(?:namespace|class|struct|union|enum|extern)\b")
TEMPLATE = re.compile(r"\btemplate\s*<")
PARAMETERS = re.compile(r"(?:[\w>\]~]|operator\s*\S{1,3})\s*\(")


def matching(text, start, pairs=("(", ")")):
    """Offset of what closes the bracket at `start`; the end of the text when nothing does."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == pairs[0]) - (text[i] == pairs[1])
        if depth == 0:
            return i
    return len(text)


def without_template(header):
    match = TEMPLATE.search(header)
    while match:
        end = matching(header, match.end() - 1, ("<", ">"))
        header = header[:match.start()] + " " * (end + 1 - match.start()) + header[end + 1:]
        match = TEMPLATE.search(header)
    return header


def count_parameters(header):
    match = PARAMETERS.search(header)
    if not match:
        return 0
    start = match.end() - 1
    inside = header[start + 1:matching(header, start)]
    if inside.strip() in ("", "void"):
        return 0
    depth, count = 0, 1
    for c in inside:
        depth += (c in "([{<") - (c in ")]}>")
        count += c == "," and depth == 0
    return count


@functools.lru_cache(maxsize=None)
def blocks(text):
    """The blocks of a file, as a tuple: several rules ask for those of each file."""
    return tuple(each_block(text))


def each_block(text):
    """Yields (kind, header, first line, last line, scopes) of each "function" definition, and of
    each "scope" (namespace, class, list of values) and "statement" outside functions; `scopes` are
    the headers of what is around it."""
    code = code_only(text)
    # Of (kind, header, first line). Kinds: "scope", "function", "inner" of a function, and
    # "argument", a default value in a header that goes on after it.
    stack = []
    header_start = 0
    for match in re.finditer(r"[{};]", code):
        i = match.start()
        in_function = any(kind == "function" for kind, _, _ in stack)
        header = "" if in_function else without_template(code[header_start:i])
        first = line_of(code, header_start + len(header) - len(header.lstrip()))
        if match[0] == "{":
            if in_function:
                stack.append(("inner", "", 0))
            elif header.count("(") > header.count(")"):
                stack.append(("argument", "", 0))
                continue
            elif SCOPE.match(header) or "(" not in header:
                stack.append(("scope", header, first))
            else:
                stack.append(("function", header, first))
        elif match[0] == "}" and stack:
            kind, header, first = stack.pop()
            if kind == "argument":
                continue
            if kind != "inner":
                yield kind, header, first, line_of(code, i), [h for _, h, _ in stack]
        elif match[0] == ";" and not in_function:
            yield "statement", header, first, line_of(code, i), [h for _, h, _ in stack]
        header_start = i + 1


def functions(text):
    """Yields (first line, last line, parameters) of each function definition."""
    for kind, header, first, last, _ in blocks(text):
        if kind == "function":
            yield first, last, count_parameters(header)


TYPE = re.compile(r"\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+"
                  r"(?:\[\[[^]]*\]\]\s*)?(\w+)")
DECLARED_TYPE = re.compile(TYPE.pattern + r"\s*(?::(?!:)[\w:\s]+)?$")
NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\s+(?:CAIRN_PUBLIC\s+)?([\w:]+)")
NAMELESS = re.compile(r"\s*(?:inline\s+)?namespace\s*$")
# Code has no literals any more: extern "C" ends with blanks.
EXTERN = re.compile(r"\bextern (?!template\b| {3})[^;{(=]*?\b(\w+)\s*[;(\[]")
VARIABLE = re.compile(
    r"^(?!\s*extern\b)[^\n;(){}=]*[\w>*&]\s+[*&]?(\w+)\s*(?:\[[^]]*\]\s*)?[={]", re.M)
CALLED = re.compile(r"((?:[A-Za-z_]\w*(?:<[^<>()]*>)?::)*~?[A-Za-z_]\w*)\s*\(")


def linked_names(text, wanted):
    """Yields (name, line) of each function that other files can call, "Class::f" of a member:
    definitions for the kind "function", declarations for "statement"."""
    for kind, header, first, _, scopes in blocks(text):
        match = CALLED.search(header)
        if kind != wanted or not match or any(NAMELESS.match(scope) for scope in scopes):
            continue
        if kind == "statement" and "=" in header[:match.start()]:  # a variable's value
            continue
        classes = [m[1] for m in map(TYPE.search, scopes) if m]
        if classes or not re.match(r"\s*static\b", header):
            yield "::".join([*classes, re.sub(r"<[^<>]*>", "", match[1])]), first
