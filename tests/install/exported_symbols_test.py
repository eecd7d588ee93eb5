#!/usr/bin/env python3
"""Compares what libcairn.so exports with what the public headers declare.

    exported_symbols_test.py LIBRARY SOURCE_FOLDER

Three claims: it exports nothing that no public header names; it exports each function that a public
header declares and a file of src/ defines; and it exports the type of each error, by which a
program catches it.
"""
import pathlib
import re
import subprocess
import sys
import unittest

LIBRARY = SOURCE = None  # the arguments
KINDS = re.compile(r"^(?:typeinfo(?: name)?|vtable|VTT|guard variable|"
                   r"(?:non-virtual|virtual|covariant return) thunk) (?:for|to) ")
OPERATOR = re.compile(r"operator(?: ?\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?| [^(]+|[^\w\s(]+)")
FRIEND = re.compile(r"\s*friend (?!class|struct|consteval)[^=(]*?\b(operator[^\w\s(]+)\s*\("
                    r"(?!.*=\s*default)", re.S)
ERROR = re.compile(r"^class (\w+) : public (?:\w*Error|std::runtime_error) \{", re.M)


def plain(demangled):
    """"Trainer::fit" of "cairn::Trainer::fit(cairn::FitOptions)"; None of what is not cairn's."""
    name = KINDS.sub("", re.sub(r"\[abi:\w+\]", "", demangled))
    name = OPERATOR.sub("operator", name)
    while "<" in name:
        shorter = re.sub(r"<[^<>]*>", "", name)
        if shorter == name:
            break
        name = shorter
    name = name.partition("(")[0].split(" ")[-1]
    return name.removeprefix("cairn::") if name.startswith("cairn::") else None


class ExportedSymbolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(SOURCE / "tools"))
        import cpp_blocks  # pylint: disable=import-outside-toplevel,import-error
        cls.cpp = cpp_blocks
        cls.headers = {path: path.read_text(encoding="utf-8")
                       for path in sorted((SOURCE / "include").rglob("*.h"))
                       if path.name != "c.h"}  # libcairn-c.so's
        command = ["nm", "--dynamic", "--extern-only", "--defined-only", "--demangle", LIBRARY]
        listed = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE).stdout
        cls.symbols = [line.split(" ", 2)[2] for line in listed.splitlines()]

    def names(self, texts, kind):
        """The functions that the texts declare ("statement") or define ("function")."""
        return {name for text in texts for name, _ in self.cpp.linked_names(text, kind)}

    def private_types(self):
        """What a class of a public header declares and no public header defines: Trainer::Impl."""
        declared, defined = set(), set()
        for text in self.headers.values():
            for kind, header, _, _, scopes in self.cpp.blocks(text):
                named = (self.cpp.DECLARED_TYPE if kind == "statement" else
                         self.cpp.TYPE).search(header)
                around = [match[1] for match in map(self.cpp.TYPE.search, scopes) if match]
                if named and around and kind != "function" and "friend" not in header:
                    (defined if kind == "scope" else declared).add("::".join([*around, named[1]]))
        return declared - defined

    def test_exports_only_what_public_headers_name(self):
        words = set(re.findall(r"\w+", "\n".join(map(self.cpp.code_only, self.headers.values()))))
        private = self.private_types()
        self.assertIn("Trainer::Impl", private)
        for symbol in self.symbols:
            name = plain(symbol)
            self.assertIsNotNone(name, f"not cairn's: {symbol}")
            parts = re.findall(r"\w+", name)
            self.assertLessEqual(set(parts), words, f"no public header names it: {symbol}")
            scopes = {"::".join(parts[:n]) for n in range(1, len(parts) + 1)}
            self.assertTrue(scopes.isdisjoint(private), symbol)

    def friends(self):
        """(function, class) of each friend that a class declares and a .cpp file defines."""
        for text in self.headers.values():
            for kind, header, _, _, scopes in self.cpp.blocks(text):
                match = FRIEND.match(header)
                classes = [found[1] for found in map(self.cpp.TYPE.search, scopes) if found]
                if kind == "statement" and match:
                    yield match[1], classes[-1]

    def test_exports_what_public_headers_declare(self):
        exported = {re.sub(r"^(?:[a-z_]+::)*", "", name) for name in map(plain, self.symbols)
                    if name is not None}
        sources = (path.read_text(encoding="utf-8")
                   for path in sorted((SOURCE / "src").rglob("*.cpp")))
        others = {"bool", "Dict::find_if"}  # std::function<bool(, and a private template
        expected = (self.names(self.headers.values(), "statement") &
                    self.names(sources, "function")) - others
        self.assertGreater(len(expected), 100)
        self.assertEqual(sorted(expected - exported), [])

    def test_exports_the_operators_that_are_friends(self):
        friends = set(self.friends())
        self.assertIn(("operator==", "Value"), friends)
        missing = [friend for friend in friends
                   if not any(symbol.startswith(f"cairn::{friend[0]}(cairn::{friend[1]}")
                              for symbol in self.symbols)]
        self.assertEqual(missing, [])

    def test_exports_the_type_of_each_error(self):
        errors = []
        for path, text in self.headers.items():
            space = "dist::" if path.parent.name == "dist" else ""
            errors += [space + name for name in ERROR.findall(text)]
        self.assertIn("Error", errors)
        missing = [name for name in errors if f"typeinfo for cairn::{name}" not in self.symbols]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    LIBRARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1])
