#!/usr/bin/env python3
"""Makes an SVG picture of what commands print on a terminal.

    terminal_picture.py OUT.svg [--columns N] [--title TEXT] COMMAND...
                        types each COMMAND into a bash on a terminal, in the present folder; the
                        picture has N columns
    terminal_picture.py OUT.svg [--columns N] [--title TEXT] --recorded FILE
                        draws recorded output (`script -q FILE`, or plain text)

The picture has its own dark background, so that it can be read on white and on dark pages.
"""
import argparse
import fcntl
import os
import pathlib
import pty
import re
import struct
import termios
from html import escape

ROWS = 50
WIDTH, HEIGHT = 8.4, 19  # of a cell, in pixels
MARGIN = 14
SPARE = 6  # columns that programs are not told of: "Killed" fits on the line of a progress bar
FONT_SIZE = 14
BACKGROUND, BORDER, TEXT, DIM = "#161b22", "#444c56", "#dbe2ea", "#8b949e"
COLOURS = ("#6e7681", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc")
BLOCKS = "█▉▊▋▌▍▎▏"  # the left 8/8, 7/8, ... 1/8 of a cell
PROMPT = "$ "
# Browsers draw several spaces as one, so that only words with one space between them are one text.
WORDS = re.compile(r"\S+(?: \S+)*")
ESCAPE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>]")


def read_until_prompt(terminal):
    """What is printed until bash waits for the next command, or ends."""
    output = b""
    while not output.endswith(b"\n" + PROMPT.encode()) and output != PROMPT.encode():
        try:
            more = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        output += more
    return output


def record(commands, columns):
    """Types the commands into an interactive bash; returns all that it and they print."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PS1=PROMPT, TERM="xterm-256color")
        os.read(0, 1)  # until the terminal has its size
        os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns - SPARE, 0, 0))
    os.write(terminal, b"\n")
    first = read_until_prompt(terminal)
    output = [first[first.rindex(PROMPT.encode()):]]
    for command in commands:
        os.write(terminal, command.encode() + b"\n")
        output.append(read_until_prompt(terminal))
    os.close(terminal)
    os.waitpid(child, 0)
    return b"".join(output).decode().rstrip("\r\n $") + "\n"


class Screen:
    """The lines of a terminal: each a list of (character, style)."""

    def __init__(self, columns):
        self.columns = columns
        self.lines = [[]]
        self.row = self.column = 0
        self.style = ()

    def put(self, character):
        if self.column == self.columns:
            self.next_line()
            self.column = 0
        line = self.lines[self.row]
        line += [(" ", ())] * (self.column - len(line))
        line[self.column:self.column + 1] = [(character, self.style)]
        self.column += 1

    def next_line(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def obey(self, parameters, letter):
        count = int(parameters) if parameters.isdigit() else 1
        if letter == "K":  # to the end of the line
            del self.lines[self.row][self.column:]
        elif letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "B":
            for _ in range(count):
                self.next_line()
        elif letter == "m":
            for code in (int(number or 0) for number in parameters.split(";")):
                self.style = () if code == 0 else (*self.style, code)

    def show(self, text):
        place = 0
        while place < len(text):
            match = ESCAPE.match(text, place)
            if match:
                if match[2]:
                    self.obey(match[1], match[2])
                place = match.end()
                continue
            character = text[place]
            if character == "\n":
                self.next_line()
                self.column = 0
            elif character == "\r":
                self.column = 0
            elif character >= " ":
                self.put(character)
            place += 1


def runs(line):
    """(column, text, style) of each stretch of one style; a block character is one of its own."""
    begin = 0
    for column in range(1, len(line) + 1):
        def kind(cell):
            return cell[1], cell[0] in BLOCKS
        if column == len(line) or kind(line[column]) != kind(line[begin]):
            yield begin, "".join(cell[0] for cell in line[begin:column]), line[begin][1]
            begin = column


def attributes(style):
    colour = TEXT
    weight = ""
    for code in style:
        if code == 1:
            weight = ' font-weight="bold"'
        elif code == 2:
            colour = DIM
        elif 30 <= code <= 37 or 90 <= code <= 97:
            colour = COLOURS[code % 10]
    return f'fill="{colour}"{weight}'


def draw_blocks(x, y, text, look):
    """The cells of a progress bar as one rectangle, because fonts leave gaps between them."""
    eighths = sum(8 - BLOCKS.index(character) for character in text)
    return (f'<rect x="{x:.1f}" y="{y + 3}" width="{eighths * WIDTH / 8:.1f}" '
            f'height="{HEIGHT - 6}" {look}/>')


def draw(screen, title):
    lines = screen.lines
    while lines and not lines[-1]:
        lines.pop()
    width = screen.columns * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
             f'width="{width:.0f}" height="{height:.0f}" role="img">',
             f"<title>{escape(title)}</title>",
             f'<rect x="0.5" y="0.5" width="{width - 1:.1f}" height="{height - 1:.1f}" rx="6" '
             f'fill="{BACKGROUND}" stroke="{BORDER}"/>',
             '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, '
             f"'DejaVu Sans Mono', monospace\" font-size=\"{FONT_SIZE}\">"]
    for row, line in enumerate(lines):
        y = MARGIN + row * HEIGHT
        if "".join(cell[0] for cell in line).startswith(PROMPT):
            line = [(character, (1,)) for character, _ in line]
        for column, text, style in runs(line):
            x = MARGIN + column * WIDTH
            if text[0] in BLOCKS:
                parts.append(draw_blocks(x, y, text, attributes(style)))
                continue
            for words in WORDS.finditer(text):
                start = x + words.start() * WIDTH
                parts.append(f'<text x="{start:.1f}" y="{y + FONT_SIZE}" '
                             f'textLength="{len(words[0]) * WIDTH:.1f}" '
                             f"{attributes(style)}>{escape(words[0])}</text>")
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--columns", type=int, default=112)
    parser.add_argument("--title", default="a session on a terminal")
    parser.add_argument("--recorded", type=pathlib.Path)
    parser.add_argument("commands", nargs="*", metavar="COMMAND")
    arguments = parser.parse_intermixed_args()
    if bool(arguments.commands) == bool(arguments.recorded):
        parser.error("give commands, or --recorded FILE")
    text = (arguments.recorded.read_bytes().decode() if arguments.recorded
            else record(arguments.commands, arguments.columns))
    screen = Screen(arguments.columns)
    screen.show(text)
    arguments.out.write_text(draw(screen, arguments.title))


if __name__ == "__main__":
    main()
