"""A state machine's own definition, run as Step Functions runs it, as far as this one goes: tasks, maps, choices, rules for
what is tried again and what is caught.

::

    execution = Execution(definition("operate", at_once=3), take)   # take: from a step's payload to its answer
    execution.run({"repository": "sales", …})                       # to its end; or a call at a time, beside others:
    for _ in execution.steps({"repository": "sales", …}): …
"""

import json
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

OTHER: Final = "States.ALL"
TOO_LARGE: Final = "States.DataLimitExceeded"
"""What ``States.ALL`` does not mean: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html"""

Ended = tuple[str, dict[str, Any]]
"""The name of the last state, and what came to it."""


class Refused(Exception):  # noqa: N818 - the service's word for it
    """The service did not call the function, or it ended without an answer; by the name that Step Functions has for that."""


class Execution:
    """One execution. Notes what it did: which rule tried which state ``again``, in which states something was ``caught``.
    ``wait`` is told how many seconds would be waited at most; ``choose`` says which of so many parts goes on."""

    def __init__(
        self,
        described: Mapping[str, Any],
        take: Callable[[dict[str, Any]], dict[str, Any]],
        *,
        wait: Callable[[float], None] = lambda _: None,
        choose: Callable[[int], int] = lambda _: 0,
    ) -> None:
        self._described = described
        self._take = take
        self._wait = wait
        self._choose = choose
        self.again: Counter[tuple[str, str]] = Counter()
        self.caught: list[str] = []

    def run(self, data: dict[str, Any]) -> str:
        """The name of the state in which it ends."""
        steps = self.steps(data)
        while True:
            try:
                next(steps)
            except StopIteration as stopped:
                return str(stopped.value)

    def steps(self, data: dict[str, Any]) -> Generator[str, None, str]:
        """Yields the name of each state before its function is called. Returns that in which it ends; raises what nobody
        caught."""
        ended, _ = yield from self._walk(self._described["States"], self._described["StartAt"], data)
        return ended

    def _walk(self, states: Mapping[str, Any], name: str, data: dict[str, Any]) -> Generator[str, None, Ended]:
        while True:
            state = states[name]
            if state["Type"] in ("Succeed", "Fail"):
                return name, data
            if state["Type"] == "Choice":
                name = next((c["Next"] for c in state["Choices"] if _holds(c, data)), state["Default"])
                continue
            try:
                if state["Type"] == "Map":
                    done = yield from self._parts(state, data)
                    data = {**data, "done": done}
                else:
                    answer = yield from self._task(name, state, data)
                    data = data if "ResultPath" in state else answer
            except Exception as error:
                if "Catch" not in state:
                    raise
                rule = next(rule for rule in state["Catch"] if _meant(error) & set(rule["ErrorEquals"]))
                self.caught.append(name)
                cause = json.dumps({"errorMessage": str(error), "errorType": type(error).__name__})
                data, name = {**data, "error": {"Error": _name(error), "Cause": cause}}, rule["Next"]
                continue
            if state.get("End"):
                return name, data
            name = state["Next"]

    def _parts(self, state: Mapping[str, Any], data: Mapping[str, Any]) -> Generator[str, None, list[str]]:
        """What each part came to. Of parts that have executions of their own nothing is told but that one failed. When one fails,
        the others are stopped where they are."""
        processor = state["ItemProcessor"]
        waiting = [self._part(processor, _item(state, data, number)) for number in data["numbers"]]
        working: list[Generator[str, None, str]] = []
        done: list[str] = []
        while waiting or working:
            while waiting and len(working) < state["MaxConcurrency"]:
                working.append(waiting.pop(0))
            chosen = working[self._choose(len(working))]
            try:
                yield next(chosen)
            except StopIteration as stopped:
                working.remove(chosen)
                done.append(stopped.value)
        return done

    def _part(self, processor: Mapping[str, Any], item: dict[str, Any]) -> Generator[str, None, str]:
        ended, made = yield from self._walk(processor["States"], processor["StartAt"], item)
        if processor["States"][ended]["Type"] == "Fail":
            assert processor["ProcessorConfig"]["Mode"] == "DISTRIBUTED"
            raise Refused("States.ExceedToleratedFailureThreshold")
        return str(made["state"])

    def _task(
        self, name: str, state: Mapping[str, Any], data: Mapping[str, Any]
    ) -> Generator[str, None, dict[str, Any]]:
        payload = _payload(state["Parameters"].get("Payload"), data)
        tries: Counter[int] = Counter()
        while True:
            yield name
            try:
                return self._take(json.loads(json.dumps(payload)))
            except Exception as error:
                rules: Sequence[Mapping[str, Any]] = state["Retry"]
                at = next((at for at, rule in enumerate(rules) if _meant(error) & set(rule["ErrorEquals"])), None)
                if at is None or tries[at] >= rules[at]["MaxAttempts"]:
                    raise
                rule = rules[at]
                self._wait(min(rule["IntervalSeconds"] * rule["BackoffRate"] ** tries[at], rule["MaxDelaySeconds"]))
                tries[at] += 1
                self.again[name, rule["ErrorEquals"][0]] += 1


def _payload(described: Mapping[str, Any] | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a function is given; all, where nothing is described."""
    if described is None:
        return dict(data)
    return {
        key.removesuffix(".$"): data[value[2:]] if key.endswith(".$") else value for key, value in described.items()
    }


def _item(state: Mapping[str, Any], data: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {
        name.removesuffix(".$"): number if path == "$$.Map.Item.Value" else data[path[2:]] if name[-1] == "$" else path
        for name, path in state["ItemSelector"].items()
    }


def _meant(error: Exception) -> set[str]:
    """The names in rules that mean an error."""
    return {_name(error)} if _name(error) == TOO_LARGE else {_name(error), OTHER}


def _name(error: Exception) -> str:
    return str(error) if isinstance(error, Refused) else type(error).__name__


def _holds(choice: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    field, _, index = choice["Variable"].removeprefix("$.").partition("[")
    value = data.get(field)
    if "IsPresent" in choice:
        return value is not None and len(value) > int(index.rstrip("]"))
    if "StringEquals" in choice:
        return bool(value == choice["StringEquals"])
    return isinstance(value, int) and value >= choice["NumericGreaterThanEquals"]
