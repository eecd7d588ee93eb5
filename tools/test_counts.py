#!/usr/bin/env python3
"""Prints how many tests passed and failed in a run of ctest: "PASSED FAILED".

    tools/test_counts.py BUILD REPORT

REPORT is what `ctest --output-junit` wrote in the folder BUILD. A part of a program
(CAIRN_TEST_PARTS) is one test to ctest; the tests in it are counted in what GoogleTest wrote of it.
What could not be run is one failure: a program that ended early, or a run without a test.
"""
import pathlib
import sys
import xml.etree.ElementTree as xml


def counts_of_part(report, passed_to_ctest):
    """Of one part: (passed, failed)."""
    root = xml.parse(report).getroot()
    tests, failed, disabled = (int(root.get(name)) for name in ("tests", "failures", "disabled"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in root)
    passed = tests - failed - disabled - skipped
    return passed, max(failed, 0 if passed_to_ctest else 1)


def counts(build, report):
    passed = failed = 0
    for case in xml.parse(report).getroot().iter("testcase"):
        status = case.get("status")  # run, fail, notrun (skipped, or not found), disabled
        part = build / "test_parts" / f"{case.get('name')}.xml"
        if part.exists():
            of_part = counts_of_part(part, status == "run")
            passed, failed = passed + of_part[0], failed + of_part[1]
        else:
            passed += status == "run"
            failed += status == "fail"
    return passed, failed


def printed(build, report):
    """As counts(); of what could not run: (0, 1)."""
    try:
        passed, failed = counts(build, report)
    except (OSError, ValueError, xml.ParseError) as error:
        print(f"{report}: {error}", file=sys.stderr)
        return 0, 1
    return (passed, failed) if passed + failed else (0, 1)


if __name__ == "__main__":
    print(*printed(*(pathlib.Path(argument) for argument in sys.argv[1:])))
