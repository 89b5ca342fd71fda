"""The entry point for ``python -m graveler.cli``, which is the command ``graveler``."""

import sys

from graveler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
