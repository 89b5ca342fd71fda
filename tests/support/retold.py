"""Repeating the tests of one module in another one, where a fixture of the same name is something else."""

from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

import pytest

_SHARE: Final = 3
"""Of so many repeated tests of a module ``make test`` runs one, and ``make test-all`` all."""


def tell_again(where: dict[str, Any], module: ModuleType, left_out: Mapping[str, str], *given: str) -> None:
    """Bring a module's tests and fixtures into ``where``, the names of another module, but for those ``left_out`` (name and why)
    and for the fixtures ``given`` there. A name that is left out and not there is an error, so that the list stays true;
    two fixtures of one name are one, too. The tests are marked as ``share(3)``."""
    unknown = set(left_out) - set(vars(module))
    assert not unknown, f"{module.__name__} has no {sorted(unknown)}"
    for name, found in vars(module).items():
        if name.startswith("test_") and isinstance(found, FunctionType) and name not in left_out:
            where[f"{name}__{module.__name__.rpartition('test_')[2]}"] = pytest.mark.share(_SHARE)(_copied(found))
        elif type(found).__name__ == "FixtureFunctionDefinition" and name not in given:
            assert where.get(name, found) is found, (
                f"two of these modules have a fixture {name!r}, and it is not the same"
            )
            where[name] = found


def _copied(test: FunctionType) -> FunctionType:
    """A function that does the same, and whose marks are its own."""
    copy = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copy.__kwdefaults__ = test.__kwdefaults__
    copy.__annotations__ = test.__annotations__
    copy.__dict__.update(test.__dict__)
    return copy
