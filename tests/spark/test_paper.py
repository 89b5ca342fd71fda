"""The page's figures about an import of a billion objects are those that the code computes, at the stated prices."""

from pathlib import Path

from bench.spark_paper import count, paper

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_the_page_has_the_table() -> None:
    counted = count()
    assert 8_000 < counted.objects / counted.ranges < 16_000
    assert 1 <= counted.seam_gets <= 4, "two ranges on average"
    assert counted.notes == 1
    assert counted.sent <= 1_200, "whatever the listing's size; the cache's folder and its size are part of it"
    assert counted.looks < 40
    assert "\n".join(paper(1_000_000_000, 100, 4, counted)) in PAGE.read_text()
