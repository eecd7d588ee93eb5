#!/usr/bin/env python3
"""plain_words.py finds its turns in comments, messages and documents, and lets plain ones pass."""
import unittest

import plain_words


def found(text, path="src/io/a.cpp"):
    return [(line, message) for line, message, _ in plain_words.findings(path, text)]


class PlainWordsTest(unittest.TestCase):
    def finds(self, sentence, part):
        for text in (f"// {sentence}\n", f"int x;  // {sentence}\n", f'say("{sentence}");\n'):
            (line, message), = found(text)
            self.assertEqual(line, 1)
            self.assertIn(part, message)
        self.assertEqual(len(found(f"- {sentence}\n", "docs/a.md")), 1)

    def test_each_rule(self):
        self.finds("Of the files that are here one is read.", "fragment")
        self.finds("What the caller wants is read first.", "fragment")
        self.finds("It is read first, what follows comes later.", "clause as its subject")
        self.finds("The link moves behind the last file.", '"after"')
        self.finds("It has the name of before and waits.", "name the thing")
        self.finds("All are read but for the last.", '"except"')
        self.finds("Whoever calls must wait, or somebody else.", "person")
        self.finds("The lock is let go by nobody, as ever.", "idiom")
        self.finds("One " + "and a b " * 12 + "waits.", "38 words")

    def test_plain_sentences_pass(self):
        for sentence in ("The link moves after the last file.",
                         "The client waits behind a proxy that buffers.",
                         "What happens when the disk is full?",
                         "Attempts per operation when the connection breaks."):
            self.assertEqual(found(f"// {sentence}\n"), [])

    def test_blocks(self):
        self.assertEqual(found("// The file is\n// behind.\n\n// It has a name.\n")[0][0], 1)
        self.assertEqual(found("// 1. It reads.\n// 2. Of two files it takes one.\n"),
                         [(2, "opens with a fragment")])
        for tool in ("--- What the caller sees ---", "NOLINTNEXTLINE(what is this)"):
            self.assertEqual(found(f"// {tool}\n"), [])
        self.assertEqual(found('"it goes on "\n    "behind the file it has";\n')[0][0], 1)
        self.assertEqual(found('EXPECT("it goes on behind the file");\n', "tests/a_test.cpp"), [])

    def test_lines_of_messages(self):
        part = "Five words and one more. " * 6
        broken = f'throw UsageError("{part}\\n{part}");\n'
        self.assertEqual(found(broken), [])
        self.assertIn("characters", found(broken.replace(r"\n", "; "))[0][1])
        self.assertEqual(found(f'query("query Files({part * 2})");\n'), [])

    def test_markdown(self):
        cell = "word " * 41
        text = f"# What is it for\n\n```\nOf no concern here.\n```\n| a | {cell} |\n"
        self.assertEqual(found(text, "docs/a.md"), [(6, "is a cell of 41 words (limit 40)")])

    def test_a_file_has_few(self):
        line = "// Of two files it takes one.\n\n"
        tree = {"src/a.h": line * 2, "src/b.h": line * 3, "src/c.py": line * 9}
        self.assertEqual([path for path, _, _ in plain_words.plain_words(tree)], ["src/b.h"] * 3)


if __name__ == "__main__":
    unittest.main()
