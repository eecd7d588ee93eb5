"""Rule of tidy.py about sentences: a comment, message or document is read once.

Finds the turns that made readers go back: not every finding is a bad sentence, but many in one file
are. Alone it lists them all:

    plain_words.py FILE...
"""
import re
import sys

MAX_FINDINGS = 2  # in a file
MAX_WORDS = 35
MAX_CELL_WORDS = 40  # in a cell of a table
LEAST_WORDS = 3  # fewer are a label, no sentence
LEAST_WORDS_OF_MESSAGE = 5  # fewer are a key, a path, half a sentence of a test
MAX_LINE_OF_MESSAGE = 200  # characters
QUERY = re.compile(r"(?:query|mutation) \w+\(")  # of a server: no message
WRAPPED = "src/cli/"  # --help breaks its explanations into lines

RULES = (
    ("opens with a fragment",
     r"^(?:What|Whose|Who|Which|Of|Those of|That of|The same of|But for|As before|As ever)\b"
     r"(?!.*\?$)"),
    ("has a clause as its subject",
     r"(?:^|[:;,]\s)[Ww]hat (?:is|are|was|were|has|had|comes|came|goes|went|lies|stands|follows"
     r"|becomes)\b(?!.*\?$)"),
    ("says \"behind\" for \"after\"",
     r"\bbehind\b(?! (?:an?|the|its|one) (?:flag|firewall|interface|load balancer|proxy|seam"
     r"|server)\b)"),
    ("does not name the thing",
     r"\b(?:of before|the one before|those of before|of later|of then)\b"),
    ("says \"but for\" for \"except\", or \"nothing but\" for \"only\"",
     r"\b(?:but for|none but|nothing but)\b"),
    ("calls a component a person", r"\b(?:whoever|somebody|nobody else's|nobody but)\b"),
    ("has an idiom of another language",
     r"\b(?:as ever|comes? by|goes by|go by the same|let(?:s|ting)? go of"
     r"|is said (?:above|below|of)|takes? part in|what it is for)\b"),
)
RULES = tuple((message, re.compile(pattern)) for message, pattern in RULES)

OWN_LINE = re.compile(r"\s*//+[!/<]?\s?(.*)")
AFTER_CODE = re.compile(r"[,;{}]\s+//\s?(.*)")
TO_TOOLS = re.compile(r"\s*(?:-{3}|NOLINT|clang-format)")
STEP = re.compile(r"\s*\d+\.\s+")
LIST_ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")
LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


class Blocks:
    """Gathers lines of running text into blocks of (line, text)."""

    def __init__(self):
        self.found = []
        self._at, self._lines = 0, []

    def add(self, number, line):
        self._at = self._at or number
        self._lines.append(line)

    def end(self):
        if self._lines:
            self.found.append((self._at, " ".join(self._lines)))
        self._at, self._lines = 0, []


def comments(text):
    blocks = Blocks()
    for number, line in enumerate(text.split("\n"), 1):
        own = OWN_LINE.match(line)
        says = own and own[1].strip()
        if not says or TO_TOOLS.match(own[1]):
            blocks.end()
            after = None if own else AFTER_CODE.search(line)
            if after:
                blocks.add(number, after[1])
                blocks.end()
            continue
        if STEP.match(own[1]):
            blocks.end()
            says = STEP.sub("", own[1])
        blocks.add(number, says)
    blocks.end()
    return blocks.found


def messages(text):
    """The string literals of C++ that are sentences."""
    code = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    for match in LITERALS.finditer(code):
        message = "".join(LITERAL.findall(match[0]))
        if len(message.split()) >= LEAST_WORDS_OF_MESSAGE and not QUERY.match(message):
            yield code.count("\n", 0, match.start()) + 1, message


def paragraphs(text):
    """The running text of Markdown, each item of a list and each cell of a table."""
    blocks, is_code = Blocks(), False
    for number, line in enumerate(text.split("\n"), 1):
        is_fence = line.startswith("```")
        is_code ^= is_fence
        says = line.strip()
        if is_fence or is_code or not says or line.startswith(("    ", "#")):
            blocks.end()
        elif says.startswith("|"):
            blocks.end()
            for cell in says.strip("|").split("|"):
                blocks.add(number, "\0" + cell.strip())
                blocks.end()
        else:
            if LIST_ITEM.match(says):
                blocks.end()
                says = LIST_ITEM.sub("", says)
            blocks.add(number, says)
    blocks.end()
    return blocks.found


def sentences(block):
    block = re.sub(r"`[^`]*`", "X", block)
    for sentence in re.split(r"(?<=[.!?;])\s+(?=[A-Z\"'(])", block):
        sentence = sentence.strip(" *-#|")
        if len(sentence.split()) >= LEAST_WORDS:
            yield sentence


def blocks_of(path, text):
    if path.endswith(".md"):
        return paragraphs(text)
    blocks = comments(text)
    if path.startswith(("src/", "include/")):
        blocks += [(line, message.replace(r"\n", " ")) for line, message in messages(text)]
    return blocks


def long_lines(path, text):
    if not path.startswith("src/") or path.startswith(WRAPPED):
        return
    for line, message in messages(text):
        for part in message.split(r"\n"):
            if len(part) > MAX_LINE_OF_MESSAGE:
                limit = f"(limit {MAX_LINE_OF_MESSAGE})"
                yield line, f"has a line of {len(part)} characters {limit}", part


def findings(path, text):
    """Yields (line, what is wrong, the sentence)."""
    yield from long_lines(path, text)
    for line, block in blocks_of(path, text):
        is_cell = block.startswith("\0")
        words = len(block.split())
        if is_cell and words > MAX_CELL_WORDS:
            yield line, f"is a cell of {words} words (limit {MAX_CELL_WORDS})", block[1:]
        for sentence in sentences(block.lstrip("\0")):
            words = len(sentence.split())
            if words > MAX_WORDS and not is_cell:
                yield line, f"has {words} words (limit {MAX_WORDS})", sentence
            for message, pattern in RULES:
                if pattern.search(sentence):
                    yield line, message, sentence


def plain_words(tree):
    for path, text in tree.items():
        if not path.endswith((".h", ".cpp", ".md")):
            continue
        found = list(findings(path, text))
        if len(found) > MAX_FINDINGS:
            for line, message, sentence in found:
                yield path, line, f"a sentence that {message}: {sentence[:60]}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            for line, message, sentence in findings(name, file.read()):
                print(f"{name}:{line}: {message}: {sentence[:100]}")
