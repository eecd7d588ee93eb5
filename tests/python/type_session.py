#!/usr/bin/env python3
"""Types the Python session of a document, and compares what Python answers.

    type_session.py DOCUMENT    in the folder of the document's files, else in the present one

Also reads the checkpoint as docs/checkpoints.md says for `weights_only=True`, where there is that.
"""
import datetime
import doctest
import os
import pathlib
import sys

import numpy
import torch


def read_with_safe_globals():
    if not hasattr(torch.serialization, "add_safe_globals"):  # before PyTorch 2.4
        return
    torch.serialization.add_safe_globals(
        [datetime.timedelta, numpy.ndarray, numpy.dtype, type(numpy.dtype("uint32"))])
    torch.load("ckpt/diagonal/latest-rank0.pt", weights_only=True)


def main():
    document = pathlib.Path(sys.argv[1]).resolve()
    if (document.parent / "weights.pt").exists():
        os.chdir(document.parent)
    # An indented line that is no output ends the session.
    session = doctest.DocTestParser().get_doctest(document.read_text(), {}, document.name,
                                                  document.name, 0)
    about = f"{document.name}: PyTorch {torch.__version__}"
    if not session.examples or doctest.DocTestRunner().run(session).failed:
        sys.exit(f"{about} does not answer as the session says")
    read_with_safe_globals()
    print(f"{about} answers as the session says")


if __name__ == "__main__":
    main()
