"""Errors of the Python API show the caller's line and one frame of graveler, unless the environment asks for all."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import graveler
from graveler.errors import GravelerError, shown_frames
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.system.tracebacks import short_traceback
from tests.support.shell import Shell

PACKAGE = str(Path(graveler.__file__).parent)


def frames(error: BaseException) -> list[str]:
    """The names of the functions of the package in the error's traceback."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]


def commit_nothing(repo: Repository) -> None:
    with repo.branch("main").transaction("Nothing"):
        pass


def begin_on_dirty(repo: Repository) -> None:
    repo.branch("main").object("a").upload("1")
    with repo.branch("main").transaction("Never"):
        raise AssertionError("the block runs")


def query_and_loop(repo: Repository, lake: Lake) -> None:
    with lake.sql("SELECT CAST('x' || range AS INTEGER) FROM range(2)") as result:
        next(result)


CALLS: dict[str, Callable[[Repository, Lake], object]] = {
    "stat": lambda repo, _: repo.branch("main").object("nope").stat(),
    "reader": lambda repo, _: repo.ref("main").object("nope").reader(),
    "upload": lambda repo, _: repo.branch("nope").object("a").upload("1"),
    "head": lambda repo, _: repo.branch("nope").head,
    "commit": lambda repo, _: repo.branch("main").commit("Nothing"),
    "create": lambda repo, _: repo.tag("v1").create("nope"),
    "merge_into": lambda repo, _: repo.branch("nope").merge_into("main"),
    "diff": lambda repo, _: repo.ref("main").diff("nope"),
    "__next__": lambda repo, _: list(repo.branch("nope").objects()),
    "to_arrow": lambda repo, _: repo.branch("nope").objects().to_arrow(),
    "properties": lambda _, lake: lake.repository("absent").properties,
    "run": lambda repo, _: repo.branch("main").import_data().prefix("file:///nowhere/at/all/").run(),
    "sql": lambda _, lake: lake.sql("SELECT * FROM objects('absent/main')"),
    "open_lake": lambda _, __: graveler.open("/nowhere/at/all"),
    "__enter__": lambda repo, _: begin_on_dirty(repo),
    "__exit__": lambda repo, _: commit_nothing(repo),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_has_one_frame(repo: Repository, lake: Lake, shell: Shell, name: str) -> None:
    with pytest.raises(GravelerError) as short:
        CALLS[name](repo, lake)
    assert frames(short.value) == [name]
    assert [frame.filename for frame in traceback.extract_tb(shown_frames(short.value.__traceback__))][-1] == __file__
    shell.export("GRAVELER_TRACEBACK", "full")
    with pytest.raises(GravelerError) as full:
        CALLS[name](repo, lake)
    assert len(frames(full.value)) > 1
    assert traceback.extract_tb(shown_frames(full.value.__traceback__)) == traceback.extract_tb(
        full.value.__traceback__
    )


def test_a_notebook_shows_the_cell_alone(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        """What IPython formats tracebacks with: here, as Python does."""

        InteractiveTB = SimpleNamespace(structured_traceback=traceback.format_exception)

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=Shell))
    with pytest.raises(GravelerError) as failed:
        repo.branch("main").commit("Nothing")
    shown = "".join(failed.value._render_traceback_())
    assert PACKAGE not in shown
    assert shown.count("  File ") == 1
    assert shown.splitlines()[-1].endswith(str(failed.value))


def test_a_row_that_cannot_be_read_has_one_frame(repo: Repository, lake: Lake) -> None:
    with pytest.raises(GravelerError) as failed:
        query_and_loop(repo, lake)
    assert frames(failed.value) == ["__next__"]


def test_what_a_block_raises_keeps_its_frames(repo: Repository) -> None:
    def deep() -> None:
        raise graveler.NotFoundError("mine")

    with pytest.raises(graveler.NotFoundError, match="mine") as failed, repo.branch("main").transaction("Never"):
        deep()
    assert "deep" in [frame.name for frame in traceback.extract_tb(failed.value.__traceback__)]


def test_causes_and_other_errors_stay() -> None:
    cause = OSError("disk")

    def read(kind: str) -> None:
        if kind == "lake":
            raise graveler.UnavailableError("cannot read") from cause
        raise TypeError("wrong")

    short = short_traceback(read)
    with pytest.raises(graveler.UnavailableError) as failed:
        short("lake")
    assert failed.value.__cause__ is cause
    with pytest.raises(TypeError) as wrong:
        short("type")
    assert [frame.name for frame in traceback.extract_tb(wrong.value.__traceback__)][-1] == "read"
    assert (short.__name__, short.__wrapped__) == ("read", read)  # type: ignore[attr-defined]
