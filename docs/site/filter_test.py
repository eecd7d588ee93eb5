#!/usr/bin/env python3
"""What Doxygen gets of the comments of a header."""
import unittest

from filter import filtered


class FilterTest(unittest.TestCase):
    def check(self, text, expected):
        self.assertEqual(filtered(text).split("\n"), expected.split("\n"))

    def unchanged(self, text):
        self.check(text, text)

    def test_comments_before_and_after_declarations(self):
        self.check("namespace a {\n// One.\nint f();\nint x = 0;  // two\n}  // namespace a",
                   "namespace a {\n/// One.\nint f();\nint x = 0;  ///< two\n}  // namespace a")
        self.check("enum class E {\n  kA,  // one\n  kB,  // two\n       // lines\n};",
                   "enum class E {\n  kA,  ///< one\n  kB,  ///< two\n///< lines\n};")

    def test_a_comment_inside_a_declaration_goes_before_it(self):
        self.check("struct A {  // one\n  template <class T>\n  A(T t)  // two\n      : a(t) {}\n"
                   "};",
                   "///\n/// one\nstruct A {  // one\n///\n/// two\n  template <class T>\n"
                   "  A(T t)  // two\n      : a(t) {}\n};")

    def test_comments_by_themselves_are_of_the_file(self):
        self.check("// One.\n#pragma once\n\n// Two.\n\nint f();",
                   "/// \\file\n/// One.\n\n#pragma once\n\n/// \\file\n/// Two.\n\n\nint f();")
        self.check("struct A {\n  // One.\n\n  int x;\n};", "struct A {\n\n  int x;\n};")

    def test_titles_in_classes_are_groups(self):
        self.check("struct A {\n  // --- One ---\n\n  int x;\n  // --- Two ---\n  int y;\n};",
                   "struct A {\n/// \\name One\n///@{\n\n  int x;\n///@}\n/// \\name Two\n///@{\n"
                   "  int y;\n///@}\n};")
        self.check("// --- One ---\nint f();", "int f();")

    def test_deprecated_names_say_so(self):
        self.check('// One.\n[[deprecated("use g()")]] int f();',
                   '/// One.\n///\n/// <b>Deprecated</b>: use g().\n'
                   '[[deprecated("use g()")]] int f();')

    def test_other_comments_are_of_no_declaration(self):
        self.check("int f() {\n  // one\n  return 0;  // two\n}",
                   "int f() {\n  return 0;  // two\n}")
        self.unchanged("int f(int a = {},  // NOLINT(one)\n      int b = 0);")
        self.check("// NOLINTBEGIN(one)\nint f();", "int f();")

    def test_nothing_is_a_command(self):
        self.check('// a@b \\n #c "d" <e> f::g ::h --i\nint f();',
                   '/// a\\@b \\\\n \\#c \\"d\\" \\<e\\> f::g \\::h \\--i\nint f();')

    def test_code_emphasis_and_links(self):
        self.check("// `a<b>` is *not* *a, b*.\nint f();",
                   "/// <code>a\\<b\\></code> is <em>not</em> *a, b*.\nint f();")
        self.check("// docs/storage.md#s3 says.\nint f();",
                   '/// <a href="../docs/storage.html#s3">docs/storage.md\\#s3</a> says.\nint f();')
        self.check("// cairn/train/rng.h\nint f();",
                   '/// <a href="train_rng.html">cairn/train/rng.h</a>\nint f();')
        self.check("// Such as:\n//\n//   f(\"<a>\");\n//\n//     g();\n//\n// Two.\nint f();",
                   '/// %Such as:\n///\n/// \\code{.cpp}\n/// f("<a>");\n///\n///   g();\n'
                   "/// \\endcode\n/// Two.\nint f();")

    def test_the_first_word_of_a_sentence_is_no_class(self):
        self.check("// Time is a Time. Value of it.\nint f();",
                   "/// %Time is a Time. %Value of it.\nint f();")


if __name__ == "__main__":
    unittest.main()
