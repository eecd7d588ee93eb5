#!/usr/bin/env python3
"""test_counts.py counts what ran, and never takes what could not run for what passed."""
import pathlib
import tempfile
import unittest

import test_counts


class CountsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)

    def part(self, name, text):
        (self.build / "test_parts").mkdir(exist_ok=True)
        (self.build / "test_parts" / f"{name}.xml").write_text(text)

    def counts(self, **status_of):
        cases = "".join(f'<testcase name="{name.replace("_0", ".0")}" status="{status}"/>'
                        for name, status in status_of.items())
        report = self.build / "ctest.xml"
        report.write_text(f"<testsuite>{cases}</testsuite>")
        return test_counts.counts(self.build, report)

    def test_each_test_of_ctest_counts(self):
        self.assertEqual(self.counts(a="run", b="fail", c="notrun", d="disabled", e="run"), (2, 1))

    def test_the_tests_of_a_part_count(self):
        self.part("a.0", '<testsuites tests="9" failures="2" disabled="1">'
                         '<testsuite skipped="1"/><testsuite skipped="2"/></testsuites>')
        self.assertEqual(self.counts(a_0="fail", b="run"), (4, 2))

    def test_a_part_that_ctest_saw_fail_has_failed(self):
        self.part("a.0", '<testsuites tests="9" failures="0" disabled="0"/>')
        self.assertEqual(self.counts(a_0="fail"), (9, 1))

    def test_a_part_that_wrote_nothing_is_one_failure(self):
        self.assertEqual(self.counts(a_0="fail"), (0, 1))

    def test_what_passed_without_a_test_in_it_adds_none(self):
        self.part("a.0", '<testsuites tests="0" failures="0" disabled="0"/>')
        self.assertEqual(self.counts(a_0="run"), (0, 0))

    def test_a_report_that_cannot_be_read_is_one_failure(self):
        self.assertEqual(test_counts.printed(self.build, self.build / "none.xml"), (0, 1))
        (self.build / "empty.xml").write_text("")
        self.assertEqual(test_counts.printed(self.build, self.build / "empty.xml"), (0, 1))

    def test_a_run_without_a_test_is_one_failure(self):
        report = self.build / "ctest.xml"
        report.write_text("<testsuite/>")
        self.assertEqual(test_counts.printed(self.build, report), (0, 1))


if __name__ == "__main__":
    unittest.main()
