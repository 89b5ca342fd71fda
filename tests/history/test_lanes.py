"""The commit graph compared with drawn examples, and its invariants on random histories."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.history.lanes import Lanes, Row


def text_of(row: Row) -> str:
    """The row without colours."""
    return "".join(stroke.text for stroke in row).rstrip()


def draw(history: str, *, boxes: bool = True) -> str:
    """The graph of ``child parent parent, child parent, …``, as the log with one line a commit shows it."""
    lanes, rows = Lanes(boxes=boxes), []
    for said in history.split(", "):
        commit, *parents = said.split()
        drawn = lanes.add(commit, parents)
        rows += [f"{text_of(drawn.node)}  {commit}", *map(text_of, drawn.links)]
    return "\n".join(rows)


EXAMPLES = {
    "a line": (
        "c b, b a, a",
        """
        ○  c
        ○  b
        ○  a
        """,
    ),
    "a merge": (
        "m a b, b r, a r, r",
        """
        ○  m
        ├─╮
        │ ○  b
        ○ │  a
        ├─╯
        ○  r
        """,
    ),
    "criss-cross": (
        "x l2 r2, l2 l1 r1, r2 r1 l1, l1 o, r1 o, o",
        """
        ○  x
        ├─╮
        ○ │  l2
        ├─│─╮
        │ ○ │  r2
        ├─┤ │
        │ ├─╯
        ○ │  l1
        │ ○  r1
        ├─╯
        ○  o
        """,
    ),
    "a merge of four": (
        "o a b c d, a r, b r, c r, d r, r",
        """
        ○  o
        ├─┬─┬─╮
        ○ │ │ │  a
        │ ○ │ │  b
        ├─╯ │ │
        │   ○ │  c
        ├───╯ │
        │     ○  d
        ├─────╯
        ○  r
        """,
    ),
    "two roots": (
        "m a b, a, b b2, b2",
        """
        ○  m
        ├─╮
        ○ │  a
          ○  b
          ○  b2
        """,
    ),
    "a branch merged twice": (
        "m2 m1 f2, f2 f1, m1 e f1, f1 e, e",
        """
        ○  m2
        ├─╮
        │ ○  f2
        ○ │  m1
        ├─┤
        │ ○  f1
        ├─╯
        ○  e
        """,
    ),
    "lanes under way are crossed": (
        "t a x, x y, y a z, z w, w q, a q, q",
        """
        ○  t
        ├─╮
        │ ○  x
        │ ○  y
        │ ├─╮
        ├─╯ │
        │   ○  z
        │   ○  w
        ○   │  a
        ├───╯
        ○  q
        """,
    ),
    "a free lane is used again": (
        "m3 m2 f, m2 m1 g, f e, g e, m1 e h, h e, e",
        """
        ○  m3
        ├─╮
        ○ │  m2
        ├─│─╮
        │ ○ │  f
        │ │ ○  g
        │ ├─╯
        ○ │  m1
        ├─│─╮
        ├─╯ │
        │   ○  h
        ├───╯
        ○  e
        """,
    ),
    "a parent twice is one": ("b a a, a", "○  b\n○  a"),
    "a log that ends early": ("m a b, b r", "○  m\n├─╮\n│ ○  b"),
    "a parent shown before its child, by clocks that disagree": (
        "m p c, p, c p",
        """
        ○  m
        ├─╮
        ○ │  p
          ○  c
          ~
        """,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_graph_is_as_drawn(name: str) -> None:
    history, picture = EXAMPLES[name]
    assert draw(history) == dedent(picture).strip("\n")


def test_without_box_characters_the_graph_is_plain_text() -> None:
    assert draw("m a b, b r, a r, r", boxes=False) == "*  m\n|-.\n| *  b\n* |  a\n|-'\n*  r"


def test_a_lane_keeps_its_colour() -> None:
    lanes = Lanes()
    merge, side, trunk = lanes.add("m", ["a", "b"]), lanes.add("b", ["r"]), lanes.add("a", ["r"])
    assert [stroke.colour for stroke in merge.links[0]] == [0, 1, 1]
    assert side.node[2].colour == 1
    assert side.node[0].colour == trunk.node[0].colour == 0


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, list[str]]]:
    """Commits with their parents, children first; several roots, merges of up to four."""
    size = draw(st.integers(1, 25))
    commits = []
    for at in range(size):
        older = list(range(at + 1, size))
        count = draw(st.integers(0, min(4, len(older))))
        parents = draw(st.permutations(older[:8]))[:count] if older else []
        commits.append((f"c{at}", [f"c{parent}" for parent in parents]))
    return commits


@given(histories())
def test_every_lane_waits_for_one_commit_and_all_end_with_the_history(history: list[tuple[str, list[str]]]) -> None:
    lanes = Lanes()
    waited: set[str] = set()
    for commit, parents in history:
        drawn = lanes.add(commit, parents)
        waited = (waited | set(parents)) - {commit}
        assert text_of(drawn.node).count("○") == 1
        assert text_of(drawn.padding).replace(" ", "") == "│" * len(waited)
        assert all(set(text_of(row)) <= set(" │─╰╯╭╮├┤┬┴┼") for row in drawn.links)
        if drawn.links:
            above, below = text_of(drawn.links[-1]), text_of(drawn.padding)
            assert [at for at, c in enumerate(below) if c == "│"] == [
                at for at, c in enumerate(above) if c in "│├┤┼╮╭┬"
            ]
    assert not waited
    assert text_of(drawn.padding) == ""
