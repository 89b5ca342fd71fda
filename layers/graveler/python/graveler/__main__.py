"""``python -m graveler``: the command line, where the command ``graveler`` is not on the path."""

import sys

from graveler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
