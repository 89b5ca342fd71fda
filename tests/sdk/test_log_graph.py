"""Histories drawn as SVG."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from graveler.errors import InvalidError
from graveler.sdk.log_graph import LogGraph
from graveler.sdk.repository import Repository

SVG = "{http://www.w3.org/2000/svg}"
ODD = "<script>alert('1')</script> & \"100%\" „odd“ \x1b[31m\x00"


def merged(repo: Repository) -> None:
    main, side = repo.branch("main"), repo.branch("side").create("main")
    side.object("b").upload("b")
    side.commit(ODD)
    main.object("a").upload("a")
    main.commit("on main")
    side.merge_into(main, message="merged")


def texts(graph: LogGraph) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(graph.svg).iter(f"{SVG}text")]


def test_a_history_is_drawn_with_all_its_commits(repo: Repository) -> None:
    merged(repo)
    graph = repo.log_graph()
    drawn = ElementTree.fromstring(graph.svg)
    nodes = [(each.get("cx"), each.get("cy")) for each in drawn.iter(f"{SVG}circle")]
    assert len(set(nodes)) == 4
    assert len({x for x, _ in nodes}) == 2, "the side branch has a lane of its own"
    ends = "".join(each.get("d") or "" for each in drawn.iter(f"{SVG}path"))
    assert all(f"M{x} {y}L" in ends for x, y in nodes), "each commit is connected"
    shown = texts(graph)
    assert [commit.id[:12] for commit in repo.ref("main").log()] == [text[:12] for text in shown]
    assert any("<script>alert('1')</script> & \"100%\" „odd“" in text for text in shown)
    assert "<script" not in graph.svg
    assert graph._repr_svg_() == graph.svg == repo.log_graph("main").svg
    assert "http" not in graph.svg.replace("http://www.w3.org/2000/svg", ""), "nothing is loaded from elsewhere"


def test_a_drawing_is_bounded_and_says_so(repo: Repository) -> None:
    merged(repo)
    shown = texts(repo.log_graph(amount=2))
    assert len(shown) == 3
    assert shown[-1] == "older commits are left out; log_graph(amount=4) shows more"
    assert "left out" not in texts(repo.log_graph(amount=4))[-1]


@pytest.mark.parametrize("name", ["it's 100% „odd“.svg", "history.svg"])
def test_a_drawing_is_saved(repo: Repository, tmp_path: Path, name: str) -> None:
    graph = repo.log_graph()
    graph.save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8") == graph.svg
    with pytest.raises(InvalidError, match="is the name of a folder"):
        graph.save(f"{tmp_path / name}/")


def test_an_empty_drawing_is_an_image() -> None:
    assert not list(ElementTree.fromstring(LogGraph([]).svg).iter(f"{SVG}circle"))


def test_who_draws_nothing_loads_nothing() -> None:
    program = (
        "import sys, graveler; graveler.Repository; assert not {'graveler.sdk.log_graph', 'html'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
