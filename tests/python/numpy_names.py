"""To be imported before files are read: numpy before 1.26 then reads what numpy 2 pickled, as 1.26
does, under the new names of its modules."""
import importlib
import sys

try:
    import numpy
except ImportError:
    numpy = None

if numpy is not None and not hasattr(numpy, "_core"):
    for name in ("", ".multiarray", ".numeric"):
        module = importlib.import_module("numpy.core" + name)
        sys.modules.setdefault("numpy._core" + name, module)
