"""What the tests share."""
import enum

import pytest


class Phase(enum.Enum):
    WARM_UP = 1
    FULL = "full"


class Point:
    """A class of a user's own."""

    def __init__(self, x, y):
        self.x, self.y = x, y


class Outer:
    """A class around another one."""

    class Inner:
        """The inner one."""


@pytest.fixture(name="path")
def make_path(tmp_path):
    return str(tmp_path / "a.pt")
