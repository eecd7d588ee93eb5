#!/usr/bin/env python3
"""Writes digits_data.inc from the digits.csv.gz of Debian's python3-sklearn.

One C++ string a scan, in the order of the file: the label, then the 64 pixels row by row, where
'a' is 0 (white) and 'q' is 16 (black).  Run it only to check where the .inc file comes from:

    examples/digits/make_digits_data.py | cmp - examples/digits/digits_data.inc
"""
import gzip

SOURCE = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"

with gzip.open(SOURCE, "rt") as lines:
    for line in lines:
        *pixels, label = (int(float(number)) for number in line.split(","))
        assert len(pixels) == 64 and all(0 <= p <= 16 for p in pixels) and 0 <= label <= 9
        print('"%d%s",' % (label, "".join(chr(ord("a") + p) for p in pixels)))
