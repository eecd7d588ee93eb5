#!/usr/bin/env python3
"""doc_blocks.py compiles, runs and compares what a page shows, and sees what is not so."""
import contextlib
import io
import textwrap
import traceback
import unittest

import doc_blocks


def fenced(language, code):
    return f"```{language}\n{code}```\n"


class TranslationUnitTest(unittest.TestCase):
    def unit(self, page):
        return doc_blocks.translation_unit("a.md", page).removeprefix(doc_blocks.HEAD)

    def test_a_block_is_a_function(self):
        self.assertEqual(self.unit("# A\n" + fenced("cpp", "f();\n") + fenced("text", "no\n")),
                         'static auto block_1() {\n#line 3 "a.md"\nf();\n}\n')

    def test_a_block_with_declarations_stands_at_file_level(self):
        for code in ("struct A {};\n", "// top level\nint f();\n", "int x;\nint main() {}\n",
                     "using A = int;\n", "template <class T>\nT f();\n"):
            self.assertEqual(self.unit(fenced("cpp", code)), f'#line 2 "a.md"\n{code}')
        self.assertIn("block_1", self.unit(fenced("cpp", "  struct A {};\n")))

    def test_includes_come_first(self):
        page = fenced("cpp", "f();\n") + fenced("cpp", "#include <map>\nstruct A {};\n")
        self.assertTrue(self.unit(page).startswith('#line 5 "a.md"\n#include <map>\nstatic auto'))

    def test_comments_are_context(self):
        self.assertEqual(self.unit("<!-- cpp: int a;\nint b; -->\n\n" + fenced("cpp", "f(a);\n")),
                         'static auto block_1() {\n#line 1 "a.md"\nint a;\nint b;\n'
                         '#line 5 "a.md"\nf(a);\n}\n')
        self.assertEqual(self.unit("<!-- cpp top: struct A {}; -->\n" + fenced("cpp", "A a;\n")),
                         '#line 1 "a.md"\nstruct A {};\n'
                         'static auto block_2() {\n#line 3 "a.md"\nA a;\n}\n')
        self.assertEqual(self.unit("<!-- no code -->\n"), "")

    def test_braces_that_a_comment_leaves_open_are_closed(self):
        page = "<!-- cpp: Options options{ -->\n" + fenced("cpp", ".a = {1},\n")
        self.assertTrue(self.unit(page).endswith(".a = {1},\n};\n}\n"))

    def test_a_block_in_a_list_loses_its_indent(self):
        page = textwrap.indent(fenced("cpp", "if (a)\n  f();\n"), "   ")
        self.assertIn("\nif (a)\n  f();\n}", self.unit(page))

    def test_a_comment_without_a_block_is_an_error(self):
        for page in ("<!-- cpp: int a; -->\n", "<!-- cpp: int a; -->\n" + fenced("text", "a\n")):
            with self.assertRaisesRegex(SystemExit, "a.md:1: no "):
                self.unit(page)

    def test_a_file_that_a_page_shows_is_compared(self):
        page = "<!-- same as b.cpp -->\n" + fenced("cpp", "int b;\n")
        self.assertEqual(self.unit(page), "")
        for text, wrong in (("int b;\n", []), ("int c;\n", [(3, "copy b.cpp into this block")])):
            found = list(doc_blocks.shown_files("a.md", page, {"b.cpp": text}.get))
            self.assertEqual(found, wrong)


class SessionTest(unittest.TestCase):
    def problems(self, session):
        """What run() prints of a page with this session; "" if it is as the page says."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            good = doc_blocks.run("a.md", fenced("console", session), "/nowhere")
        self.assertEqual(good, not said.getvalue())
        return said.getvalue()

    def passes(self, session):
        self.assertEqual(self.problems(session), "")

    def test_output_is_compared(self):
        self.passes("$ echo a; echo b >&2\na\nb\n\n$ printf c\nc\n$ true\n")
        self.assertIn("a.md:3: $ echo c\n", self.problems("$ true\n$ echo c\nd\n"))
        self.assertIn("-b\n", self.problems("$ echo a\na\nb\n"))
        self.assertIn("+b\n", self.problems("$ echo a; echo b\na\n"))

    def test_dots_stand_for_lines(self):
        self.passes("$ echo; echo a; echo b; echo a\n...\na\n...\n")
        self.passes("$ true\n...\n")
        self.assertIn("...", self.problems("$ echo a; echo b\na\n...\nc\n"))

    def test_what_varies_may_differ(self):
        self.passes("$ echo 'at 2026-01-02 03:04:05.6 in  12 ms'\nat 2025-12-31 1:02:03 in 1.5 s\n")
        self.passes("$ echo '[0123456] = -1.5e-05 (12,345 MiB)'\n[98abcde] = 0.5 (1 B)\n")
        self.passes("$ echo 1 thread of   16\n2 threads of 8\n")
        self.passes("$ echo on $(hostname), $PWD/a\non node7, /home/you/a\n")
        self.assertIn("+1 of 2", self.problems("$ echo 1 of 2\n1\n"))
        self.assertIn("+ba1", self.problems("$ echo ba1\nep1\n"))

    def test_commands_share_a_shell_in_an_empty_folder(self):
        self.passes("$ ls -A; mkdir a; cd a; x=b\n$ echo $x; touch b; echo \\\n  c\nb\nc\n"
                    "$ cat > d <<END\n> e\n> END\n$ ls; cat d\nb\nd\ne\n")

    def test_exit_codes(self):
        self.passes("$ false\n$ (exit 3)  # exit 3\n")
        self.assertIn("a.md:2: exit code 1: false", self.problems("$ false  # exit 0\n"))

    def test_notices_of_jobs_do_not_count(self):
        self.passes("$ sleep 9 &\n[1] 77\n$ kill -9 $!; wait\n[1]+  Killed      sleep 9\n")
        self.passes("$ bash -c 'kill -9 $$'  # exit 137\nKilled\n")

    def test_a_session_that_ends_early_fails(self):
        self.assertIn("a.md:3: the session ended", self.problems("$ true\n$ exit 0\n$ true\n"))
        with self.assertRaisesRegex(SystemExit, "a.md:2: the session begins without"):
            self.problems("true\n")


class PythonTest(unittest.TestCase):
    def run_page(self, page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            doc_blocks.run_python("a.md", page)
        return out.getvalue()

    def test_all_blocks_are_one_program(self):
        page = "<!-- python: a = 1 -->\n" + fenced("python", "b = a + 1\n") + fenced("sh", "no\n")
        self.assertEqual(self.run_page(page + fenced("python", "print(a, b)\n")), "1 2\n")

    def test_an_error_has_the_pages_line(self):
        try:
            self.run_page("# A\n\n" + fenced("python", "a = 0\n1 / a\n"))
            self.fail("no error")
        except ZeroDivisionError as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.assertEqual((place.filename, place.lineno), ("a.md", 5))

    def test_what_is_missing_leaves_a_block_out(self):
        page = "<!-- python needs no_such_module -->\n" + fenced("python", "1 / 0\n")
        self.assertEqual(self.run_page(page), "a.md:3: left out, no no_such_module\n")
        page = "<!-- python needs unittest -->\n" + fenced("python", "print(1)\n")
        self.assertEqual(self.run_page(page), "1\n")

    def test_a_comment_without_a_block_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "a.md:1: no python block"):
            self.run_page("<!-- python: a = 1 -->\n" + fenced("cpp", "int a;\n"))


if __name__ == "__main__":
    unittest.main()
