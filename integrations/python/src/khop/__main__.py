"""The khop command of the wheel: hands over to the program."""

import os
import sys

from .binary import find
from .errors import BinaryNotFound


def main() -> None:
    """Replaces this process by the khop program, with the same arguments."""
    try:
        path = find()
    except BinaryNotFound as e:
        sys.exit(f"khop: {e}")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
