"""The state machine's reaction to each error that a step can raise: by its own definition, for every class."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Final

import pytest

import graveler
from graveler import errors
from graveler.errors import AnswerLostError, BusyError, GravelerError, TooLateError, UnavailableError, may_pass
from graveler.functions import operate_entry
from graveler.functions.operate_entry import operate_handler
from graveler.operations.failures import of_kind
from graveler.operations.machine import Machine
from infra.state_machine import definition
from tests.functions.test_maintenance import Context

PASSING, FOR_GOOD, UNEXPECTED = 12, 0, 4
"""How often a step is tried again."""

ROOMS: Final = (
    "access",
    "api",
    "functions",
    "history",
    "ingest",
    "lake",
    "operations",
    "retention",
    "staging",
    "storage",
)
"""Whose code a step may run; and the API's, which raises some of its own."""


def kinds() -> list[type[GravelerError]]:
    """Every class of errors that the package has, in the rooms that a step may reach."""
    for room in ROOMS:
        package = importlib.import_module(f"graveler.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"graveler.{room}."):
            importlib.import_module(module.name)
    return sorted(
        (kind for kind in _below(GravelerError) if kind.__module__.startswith(f"{graveler.__name__}.")),
        key=lambda kind: (kind.__module__, kind.__name__),
    )


def _below(kind: type[GravelerError]) -> Iterator[type[GravelerError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


def tasks() -> Iterator[tuple[str, dict[str, Any]]]:
    def within(states: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, state in states.items():
            if state["Type"] == "Task":
                yield name, state
            elif state["Type"] == "Map":
                yield from within(state["ItemProcessor"]["States"])

    return within(definition("operate", at_once=40)["States"])


def times(state: dict[str, Any], name: str) -> int:
    """How often the state is tried again after an error of this name. Names are compared letter by letter."""
    rule = next(rule for rule in state["Retry"] if {name, "States.ALL"} & set(rule["ErrorEquals"]))
    return int(rule["MaxAttempts"])


def raised(kind: type[GravelerError], patch: pytest.MonkeyPatch) -> str:
    """The name by which the state machine knows what a step raises that is ended by an error of this class."""

    class Opened:
        """Not asked for anything but to tell what it did."""

        def __init__(self, verb: str) -> None:
            self.lake = self.configuration = self.telemetry = self.traffic = self

        part_records = 1

        def begin(self, *_: object) -> None: ...

        def take(self) -> None: ...

        def tell(self, *_: object) -> None: ...

    def fails(*_: object) -> None:
        error = kind.__new__(kind)
        error.args = ("why",)
        raise error

    patch.setattr(operate_entry, "Function", Opened)
    patch.setattr(Machine, "plan", fails)
    with pytest.raises(GravelerError) as told:
        operate_handler()({"step": "plan", "repository": "r", "operation": "o", "attempt": 1}, Context())
    assert "why" in str(told.value)
    return type(told.value).__name__


def test_every_class_of_errors_meets_the_rule_that_is_meant_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kinds()
    assert {TooLateError, AnswerLostError} < set(found)
    assert len(found) > 40
    for kind in found:
        name = raised(kind, monkeypatch)
        meant = PASSING if may_pass(kind) else FOR_GOOD
        assert {task: times(state, name) for task, state in tasks()} == {task: meant for task, _ in tasks()}, kind
        assert of_kind(name, "why", {}) is not None, f"{name} is a class that who reads the operation knows"


def test_what_may_pass_is_what_others_stand_in_the_way_of_and_what_a_resource_refuses() -> None:
    for kind in kinds():
        assert may_pass(kind) == (issubclass(kind, BusyError | UnavailableError) and not issubclass(kind, TooLateError))
    assert may_pass(AnswerLostError)
    assert not may_pass(TooLateError)
    assert not may_pass(GravelerError)
    assert not may_pass(MemoryError)


def test_what_nobody_expected_is_tried_some_times_and_throttling_for_an_hour() -> None:
    for _, state in tasks():
        for name in ("RuntimeError", "MemoryError", "Sandbox.Timedout", "Runtime.ExitError", "Lambda.Unknown"):
            assert times(state, name) == UNEXPECTED
        assert times(state, "Lambda.TooManyRequestsException") == 60


def test_a_rule_names_public_classes_only_and_each_once() -> None:
    for _, state in tasks():
        listed = [name for rule in state["Retry"] for name in rule["ErrorEquals"]]
        assert len(listed) == len(set(listed))
        ours = [name for name in listed if "." not in name]
        assert set(ours) == {kind.__name__ for kind in _below(GravelerError) if kind.__module__ == errors.__name__}
