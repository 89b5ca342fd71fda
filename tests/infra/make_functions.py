"""Writes ``infra/functions.json``: the operations that another function answers than that of their method, for the program that
deploys. ``python -m tests.infra.make_functions``; a test holds the file to the routes."""

import json
from pathlib import Path
from typing import Final

from graveler.api.resources import GROUPS, unimplemented
from graveler.api.routing import SAFE, Router

FILE: Final = Path(__file__).resolve().parents[2] / "infra" / "functions.json"


def functions_json() -> str:
    """The file as it should be."""
    functions = {
        route.operation: route.function
        for route in Router(GROUPS).routes
        if route.tag != unimplemented.routes.tag and route.function != ("read" if route.method in SAFE else "write")
    }
    return json.dumps(functions, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(functions_json())
