"""``python -m graveler.gateway``: the process of a gateway, which ``graveler run`` starts."""

import sys

from graveler.gateway.process import main

if __name__ == "__main__":
    sys.exit(main())
