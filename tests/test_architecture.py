"""The page about the architecture has the rooms that there are."""

from tests.count_house import PACKAGE
from tests.make_architecture import PAGE, page, rows


def test_the_page_is_made_from_contracts_and_docstrings() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.make_architecture`"


def test_every_room_is_in_a_row() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {room for row in rows() for room in row} == rooms - {"__init__"}
