"""python3 -m cairn ARGUMENTS: the tool."""
import signal
import sys

from ._tool import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for the end of the command
    sys.exit(main())
