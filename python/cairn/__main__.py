"""python3 -m cairn ARGUMENTS: the tool."""
import signal
import sys

from . import _tool


def main() -> int:
    """Runs the tool with the arguments of this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for the end of the command
    return _tool.main()


if __name__ == "__main__":
    sys.exit(main())
