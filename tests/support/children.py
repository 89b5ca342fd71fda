"""Children of a fork."""

import os
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process at once: without what a program does in its end, of which a child has copies."""
    os._exit(code)
