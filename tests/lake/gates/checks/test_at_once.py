"""Checks of one candidate at the same time: they overlap, a bounded number of them, with a verdict each, and end together."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from graveler.errors import RuleError
from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.run import AT_ONCE, run_checks
from graveler.model import RequiredStatus, Rule, Status
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS, Checked, commit_bytes, has_ended
from tests.lake.gates.support import guarded_world


class EndedError(Exception):
    """The candidate ended."""


class Scripts:
    """Checks by shell scripts, by their names; ``$1`` is the test's folder."""

    def __init__(self, folder: Path, scripts: Mapping[str, str]) -> None:
        self.checked = Checked().commit({"a": b"1"})
        self._definitions = {name: {"kind": "command", "name": name, "seconds": 600} for name in scripts}
        commands = {name: ("sh", "-c", script, "sh", str(folder)) for name, script in scripts.items()}
        self._settings = CheckSettings(commands=commands)

    def run(self, expect_needed: Callable[[], None] = lambda: None) -> dict[str, Status]:
        """Run the checks; ``expect_needed`` raises if they are to end."""
        checked = self.checked
        asking = Lock()

        def stop() -> None:
            assert asking.acquire(blocking=False), "one thread at a time asks"
            try:
                checked.world.clock.time += 2  # so that the question may be asked again
                expect_needed()
            finally:
                asking.release()

        parts = checked.world.main.parts
        return run_checks(parts, checked.candidate, checked.base, self._definitions, stop, self._settings)


def test_two_checks_overlap(tmp_path: Path) -> None:
    for name in ("to-first", "to-second"):
        os.mkfifo(tmp_path / name)
    scripts = Scripts(
        tmp_path,
        {
            "first": 'echo begun > "$1/to-second"; cat "$1/to-first"',
            "second": 'cat "$1/to-second" > /dev/null; echo "met the first" > "$1/to-first"; exit 3',
        },
    )
    first, second = scripts.run().items()
    assert (first[0], first[1].state, first[1].description) == ("first", SUCCESS, "met the first")
    assert (second[0], second[1].state) == ("second", FAILURE)


def test_all_checks_end_with_their_candidate_and_no_other_begins(tmp_path: Path) -> None:
    names = [f"check-{number}" for number in range(AT_ONCE + 2)]
    script = 'file="$1/$GRAVELER_CHECK_CHECK"; echo $$ > "$file.new"; mv "$file.new" "$file"; exec sleep 600'
    scripts = Scripts(tmp_path, dict.fromkeys(names, script))

    def expect_needed() -> None:
        if sum((tmp_path / name).exists() for name in names) == AT_ONCE:
            raise EndedError

    with pytest.raises(EndedError):
        scripts.run(expect_needed)
    begun = [tmp_path / name for name in names if (tmp_path / name).exists()]
    assert [path.name for path in begun] == names[:AT_ONCE]
    assert all(map(has_ended, begun))


def test_a_check_that_cannot_be_made_does_not_hide_the_others() -> None:
    checked = Checked()
    base, candidate = checked.candidate, commit_bytes(checked.world.main, {"t/1.gz": b"\x1f\x8b"})
    objects = checked.world.objects()
    [key] = [stored.key for stored in objects.list("data/")]
    objects.delete(key)
    definitions: dict[str, dict[str, Any]] = {
        "unreadable": {"kind": "formats", "patterns": ["**"]},
        "later": {"kind": "of a later version"},
        "few": {"kind": "limits", "most_objects": 0},
        "kept": {"kind": "no-deletes"},
    }
    statuses = run_checks(checked.world.main.parts, candidate, base, definitions, settings=CheckSettings())
    assert {name: status.state for name, status in statuses.items()} == {
        "unreadable": ERROR,
        "later": ERROR,
        "few": FAILURE,
        "kept": SUCCESS,
    }
    assert list(statuses) == list(definitions)


def test_a_refusal_names_all_checks_that_fail() -> None:
    keep = RequiredStatus("keep", check={"kind": "no-deletes"})
    few = RequiredStatus("few", check={"kind": "limits", "most_objects": 0})
    world = guarded_world(Rule(name="checked", branches=("main",), statuses=(keep, few)))
    world.main.delete("main", ["a"])
    world.main.upload("main", "c", b"")
    with pytest.raises(RuleError) as refused:
        world.main.commit("main", "delete")
    assert [(lack.name, lack.state) for lack in refused.value.lacks] == [("keep", "failure"), ("few", "failure")]
