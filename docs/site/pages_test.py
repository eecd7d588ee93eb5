#!/usr/bin/python3
"""Tests of pages.py that need neither Doxygen nor Sphinx."""
import pathlib
import unittest

import pages

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include/cairn"


class Pages(unittest.TestCase):
    def test_every_folder_of_public_headers_has_a_group(self):
        folders = {str(path.parent.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h")}
        self.assertEqual({folder or "." for folder in pages.FOLDERS}, folders - {"detail"})


if __name__ == "__main__":
    unittest.main()
