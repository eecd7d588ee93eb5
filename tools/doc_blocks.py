#!/usr/bin/env python3
"""Tests the blocks of code in a page of the documents.

    doc_blocks.py cpp PAGE OUT           write the translation unit of the page's `cpp` blocks
    doc_blocks.py run PAGE --path BIN    run its `console` blocks, with the programs in BIN
    doc_blocks.py python PAGE            run its `python` blocks

A `cpp` block is the body of a function, or stands at file level if a line of it begins as TOP_LEVEL
says. What it needs besides stands in comments of HTML directly before it, which no reader sees:

    <!-- cpp: torch::nn::Linear net(2, 2); -->    code before the block's, in the same function;
                                                  braces that it leaves open are closed after it
    <!-- cpp top: struct Mine {}; -->             code at file level
    <!-- same as examples/own_loop/main.cpp -->   not compiled: tidy compares it with that file

All `console` blocks of a page are one session of bash in a new folder. Lines that begin with "$ "
are commands (continued after a backslash, or by lines that begin with "> "), the others what is
printed. A line "..." stands for any lines; numbers, times, sizes, hashes, dates, the name of the
host and the path of the folder may differ. "# exit 3" behind a command is the exit code wanted.

All `python` blocks of a page are one program in a new folder. Comments before a block:

    <!-- python: x = 1 -->                        code before the block's
    <!-- python needs MODULE -->                  left out where MODULE cannot be imported
"""
import argparse
import collections
import contextlib
import difflib
import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMEOUT = 500  # seconds, for a page's session

PIECE = re.compile(r"<!--(?P<comment>.*?)-->|^(?P<indent> *)(?P<fence>```+)(?P<language>[\w+-]*)"
                   r"[^\n]*\n(?P<code>.*?)^ *(?P=fence)[ \t]*$", re.M | re.S)
COMMENT = re.compile(r"\s*(?P<kind>cpp top:|cpp:|same as\b|python:|python needs\b)\s*")
TOP_LEVEL = re.compile(r"^(#include|struct |class |template|namespace |using |int main"
                       r"|// top level)", re.M)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.M)
HEAD = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in (
    "shadow", "unused-but-set-variable", "unused-function", "unused-parameter", "unused-value",
    "unused-variable")) + '#include <torch/torch.h>\n\n#include "cairn/cairn.h"\n'
# `kind`: "cpp:" and so on for a comment, else the language of a block; `line`: its first line's.
Piece = collections.namedtuple("Piece", "kind text line")


def pieces(text):
    """The blocks of a page and the comments for them, in order."""
    for match in PIECE.finditer(text):
        comment = COMMENT.match(match["comment"] or "")
        start = match.start("code") if match["comment"] is None else match.start("comment")
        start += comment.end() if comment else 0
        line = text.count("\n", 0, start) + 1
        if comment:
            yield Piece(comment["kind"], match["comment"][comment.end():].rstrip() + "\n", line)
        elif match["comment"] is None:
            code = re.sub(rf"^ {{1,{len(match['indent'])}}}", "", match["code"], flags=re.M) \
                if match["indent"] else match["code"]
            yield Piece(match["language"], code, line)


def groups(page, text):
    """(block, the comments before it) of each block; a comment "cpp top:" is a block of its own."""
    comments = []
    for piece in pieces(text):
        if piece.kind == "cpp top:":
            yield piece, []
        elif piece.kind in ("cpp:", "same as", "python:", "python needs"):
            comments.append(piece)
        else:
            for language in ("cpp", "python"):
                if piece.kind != language and any(c.kind.startswith(language) for c in comments):
                    sys.exit(f"{page}:{comments[0].line}: no {language} block follows this comment")
            yield piece, comments
            comments = []
    if comments:
        sys.exit(f"{page}:{comments[0].line}: no block follows this comment")


def translation_unit(page, text):
    includes, body = [], []

    def placed(part):
        for match in INCLUDE.finditer(part.text):
            line = part.line + part.text.count("\n", 0, match.start())
            includes.append(f'#line {line} "{page}"\n{match[0]}\n')
        return f'#line {part.line} "{page}"\n' + INCLUDE.sub("", part.text)

    for block, comments in groups(page, text):
        if block.kind not in ("cpp", "cpp top:") or any(c.kind == "same as" for c in comments):
            continue
        code = "".join(placed(part) for part in [*comments, block])
        if block.kind == "cpp" and not TOP_LEVEL.search(block.text):
            # `auto`: the block may be the end of a main() that returns something.
            left_open = code.count("{") - code.count("}")
            code += "}" * left_open + ";\n" * (left_open > 0)
            code = f"static auto block_{len(body) + 1}() {{\n{code}}}\n"
        body.append(code)
    return HEAD + "".join(includes) + "".join(body)


def shown_files(page, text, text_of):
    """(line, message) of each block that is not the file whose name stands before it."""
    for block, comments in groups(page, text):
        for name in (c.text.strip() for c in comments if c.kind == "same as"):
            if block.text != text_of(name):
                yield block.line, f"copy {name} into this block"


# What differs from run to run: each becomes the same sign in what is expected and what is printed.
VARYING = [(re.compile(pattern), sign) for pattern, sign in (
    (r"\b(?=[a-f]*\d)[0-9a-f]{7,}\b", "#"),  # a hash
    (r"(?<![\w#])[-+](?=\d)", ""),
    (r"\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?", "#"),
    (r"# ?(?:[KMGT]i?B|B|bytes?|ns|us|µs|ms|s|min|h)\b", "#"),
    (r"(# [a-z]+?)s\b", r"\1"),  # 1 thread, 2 threads
    (r"([-=─━])\1\1+", "---"),  # below the head of a table
    (r"\s+", " "))]
# bash's own words on its jobs: an interactive shell has others, and when they come is chance.
JOB = re.compile(r"(bash: line \d+: +\d+ )?(Killed|Terminated|Hangup|Interrupt|Aborted)\b.*"
                 r"|\[\d+\]( \d+|[-+ ] +(Done|Exit|Running|Killed|Terminated|Hangup).*)")


def without_varying(line):
    for pattern, sign in VARYING:
        line = pattern.sub(sign, line)
    return line.strip()


def same_line(expected, printed, folder):
    printed = re.sub(r"^bash: line \d+: ", "bash: ", printed)
    printed = printed.replace(folder, "\0").replace(socket.gethostname(), "\1")
    pattern = re.escape(without_varying(printed))
    pattern = pattern.replace("\\\0", "\0").replace("\\\1", "\1")
    pattern = pattern.replace("\0", r"[\w/.~#-]*?").replace("\1", r"[\w.#-]+")
    return re.fullmatch(pattern, without_varying(expected)) is not None


def same_lines(expected, printed, folder):
    for n, line in enumerate(expected):
        if line.strip() == "...":
            return any(same_lines(expected[n + 1:], printed[skipped:], folder)
                       for skipped in range(n, len(printed) + 1))
        if n >= len(printed) or not same_line(line, printed[n], folder):
            return False
    return len(printed) == len(expected)


# A command of a session: its text, the lines expected after it, and where it stands.
Command = collections.namedtuple("Command", "text expected line")


def commands(page, text):
    found = []
    for block in pieces(text):
        fresh = False  # whether the command may go on in this line
        for n, line in enumerate(block.text.splitlines() if block.kind == "console" else ()):
            if line.startswith("$ "):
                found.append(Command(line[2:], [], block.line + n))
                fresh = True
            elif fresh and (line.startswith("> ") or found[-1].text.endswith("\\")):
                found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{line.removeprefix('> ')}")
            else:
                fresh = False
                if not found:
                    sys.exit(f"{page}:{block.line}: the session begins without a command")
                found[-1].expected.append(line)
    return found


def outputs(session, path, folder):
    """(lines printed, exit code) of each command; fewer than commands if bash ended before."""
    mark = "end-of-command"
    script = "".join(f"{c.text}\nprintf '\\n{mark} %d\\n' $?\n" for c in session)
    work, home, log = (pathlib.Path(folder, name) for name in ("work", "home", "log"))
    work.mkdir()
    home.mkdir()
    environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(home),
                                "LC_ALL": "C.UTF-8"}
    # Through cat: a program in the background may hold its end of a pipe for longer than bash.
    with open(log, "wb") as file, subprocess.Popen(["cat"], stdin=subprocess.PIPE,
                                                   stdout=file) as cat:
        bash = subprocess.Popen(["bash", "--norc", "-c", script], cwd=work, env=environment,
                                stdin=subprocess.DEVNULL, stdout=cat.stdin,
                                stderr=subprocess.STDOUT, start_new_session=True)
        try:
            bash.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            print(f"the session took longer than {TIMEOUT} s")
        finally:  # what it left in the background, too
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
            bash.wait()
    parts = re.split(rf"\n{mark} (\d+)\n", log.read_text(errors="replace"))
    return [(part.splitlines(), int(code)) for part, code in zip(parts[::2], parts[1::2])]


def trimmed(lines):
    return "\n".join(line for line in lines if not JOB.fullmatch(line)).rstrip().splitlines()


def run(page, text, path):
    """Prints what a session does otherwise than its page says; whether it does as the page says."""
    session = commands(page, text)
    with tempfile.TemporaryDirectory(prefix="cairn-docs-") as folder:
        printed = outputs(session, path, folder)
        problems = 0
        for command, (lines, code) in zip(session, printed):
            expected, lines = trimmed(command.expected), trimmed(lines)
            wanted = re.search(r"# exit (\d+)\s*$", command.text)
            if wanted and int(wanted[1]) != code:
                print(f"{page}:{command.line}: exit code {code}: {command.text}")
                problems += 1
            if not same_lines(expected, lines, f"{folder}/work"):
                print(f"{page}:{command.line}: $ {command.text}",
                      *difflib.unified_diff(expected, lines, "the page", "printed", lineterm=""),
                      sep="\n")
                problems += 1
    if len(printed) < len(session):
        print(f"{page}:{session[len(printed)].line}: the session ended in this command")
    return not problems and len(printed) == len(session)


def run_python(page, text):
    """Runs the `python` blocks; an exception's lines are those of the page."""
    program = types.ModuleType("page")
    sys.modules["page"] = program  # where pickle looks for the page's classes
    for block, comments in groups(page, text):
        missing = [c.text.strip() for c in comments if c.kind == "python needs"
                   and importlib.util.find_spec(c.text.strip()) is None]
        if block.kind == "python" and missing:
            print(f"{page}:{block.line}: left out, no {', '.join(missing)}")
        elif block.kind == "python":
            for part in [*(c for c in comments if c.kind == "python:"), block]:
                code = "\n" * (part.line - 1) + part.text
                exec(compile(code, page, "exec"), vars(program))  # pylint: disable=exec-used


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("cpp", "run", "python"))
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--path", type=lambda path: pathlib.Path(path).resolve())
    arguments = parser.parse_args()
    whole = arguments.page.resolve()
    page = str(whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else arguments.page)
    text = whole.read_text(encoding="utf-8")
    if arguments.mode == "run":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and bash with it
        sys.exit(not run(page, text, arguments.path))
    if arguments.mode == "python":
        with tempfile.TemporaryDirectory(prefix="cairn-docs-") as folder, contextlib.chdir(folder):
            run_python(page, text)
        return
    arguments.out.write_text(translation_unit(page, text), encoding="utf-8")


if __name__ == "__main__":
    main()
