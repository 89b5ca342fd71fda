"""The names by which Step Functions knows what a function of graveler raised.

Lambda tells an error by the name of its class alone, and a rule of a state machine compares names letter by letter: it knows no
subclass (https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html). So a rule lists every class that it
means, and the lists are made here, of the tree in ``graveler/errors.py``. That file imports nothing but the standard library:
it is loaded by its path, since who deploys has none of the package's own requirements.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

_TREE: Final = Path(__file__).parents[1] / "layers" / "graveler" / "python" / "graveler" / "errors.py"


@cache
def names() -> tuple[list[str], list[str]]:
    """The classes of what may pass, and of what is for good, in alphabetical order."""
    tree = _loaded()
    may_pass: Callable[[type], bool] = tree.may_pass
    base: type = tree.GravelerError
    kinds = sorted(_with_subclasses(base), key=lambda kind: kind.__name__)
    passing = [kind.__name__ for kind in kinds if may_pass(kind)]
    return passing, [kind.__name__ for kind in kinds if kind.__name__ not in passing]


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    below: list[type] = kind.__subclasses__()
    for each in below:
        yield from _with_subclasses(each)


def _loaded() -> ModuleType:
    spec = spec_from_file_location("graveler_errors", _TREE)
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
