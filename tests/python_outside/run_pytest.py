"""pytest, for a Python that is started with a script."""
import sys

import pytest

sys.exit(pytest.main(sys.argv[1:]))
