"""An operation's failure is reported as the verb's own error, whatever its class."""

from pathlib import Path

import pytest

from graveler import errors
from graveler.api.errors import status_and_error
from graveler.cli.exits import exit_code, report
from graveler.cli.hints import hint_for
from graveler.cli.locations import forget_named
from graveler.errors import GravelerError
from graveler.lake.importing.listing_files import ListingError
from graveler.operations.failures import kind_of, of_kind
from graveler.operations.work import CancelledError
from graveler.storage.objects.port import NotSyncedError

KINDS = sorted(
    name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, GravelerError)
)


@pytest.mark.parametrize("name", KINDS)
def test_every_error_comes_back_so_that_each_face_can_tell_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = of_kind(name, "what was wrong", {})
    assert error is not None
    assert type(error) is getattr(errors, name)
    assert str(error) == "what was wrong"
    forget_named()  # what the last command of another test opened
    hint = hint_for(error)
    assert report(error) is exit_code(error)
    assert capsys.readouterr().err.partition("\n")[0] == f"error: what was wrong{f'. {hint}' if hint else ''}"
    assert "what was wrong" in repr(status_and_error(error)[1])


def test_what_is_no_error_of_ours_is_none() -> None:
    assert [of_kind(name, "x", {}) for name in ("", "ValueError", "UNREADABLE", "annotations")] == [None] * 4


def test_an_error_of_a_room_is_known_by_the_public_one_above_it() -> None:
    found = [kind_of(error) for error in (NotSyncedError("x"), ListingError(Path("l"), "x"), CancelledError("x"))]
    assert found == ["AnswerLostError", "InvalidError", "PreconditionError"]
