"""The contents of the sample."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from graveler.api.sample.png import bar_chart

_GZIP: Final = 31
"""The zlib window for a gzip file."""

TABLE: Final = Path(__file__).with_name("lakes.parquet.gz")
"""The table of the lakes, compressed. Functions have no library to write one with; ``tests/make_sample.py`` does."""

_SEED: Final = 1
_LAKES: Final = 24_000
_BARS: Final = 24
# fmt: off
_COUNTRIES: Final = (
    "Argentina", "Armenia", "Australia", "Brazil", "Canada", "Chile", "China", "Ethiopia", "Finland", "France", "Germany",
    "Iceland", "India", "Indonesia", "Ireland", "Italy", "Japan", "Kazakhstan", "Kenya", "Mexico", "Mongolia", "Norway", "Peru",
    "Poland", "Russia", "Sweden", "Switzerland", "Turkey", "Uganda",
)
_SYLLABLES: Final = (
    "ba", "den", "fjor", "gol", "ha", "jar", "ke", "la", "mel", "nor", "o", "pe", "quin", "ral", "sa", "tin", "u", "vas", "wen",
)
# fmt: on
_README: Final = """\
# Sample data

| path | what |
|---|---|
| `lakes.parquet` | {lakes:,} lakes: `Hylak_id`, `Lake_name`, `Country`, `Depth_m` |
| `images/*.png` | for each country, how many of its lakes are how deep |
| `data/lakes.source.md` | where they come from |

Ask something:

    SELECT Country, count(*) AS lakes FROM read_parquet('lakefs://{repository}/{branch}/lakes.parquet')
    GROUP BY Country ORDER BY lakes DESC LIMIT 5

Then change something where nobody sees it:

    lakectl branch create lakefs://{repository}/deep --source lakefs://{repository}/{branch}

write another `lakes.parquet` there, look at the difference, commit, and merge:

    lakectl diff lakefs://{repository}/{branch} lakefs://{repository}/deep
    lakectl commit lakefs://{repository}/deep -m 'Only the deep ones'
    lakectl merge lakefs://{repository}/deep lakefs://{repository}/{branch}
"""
_SOURCE: Final = """\
# Where the lakes come from

Nowhere: a program drew them by lot, from a fixed seed, so everybody has the same ones. Countries are real, lakes are not.
`Depth_m` is a mean depth in metres; most are shallow, and a few are very deep, as lakes are.
"""


class Lakes(NamedTuple):
    """The columns of the table."""

    ids: list[int]
    names: list[str]
    countries: list[str]
    depths: list[float]


class SampleFile(NamedTuple):
    """An object to upload."""

    path: str
    content_type: str
    data: bytes


def sample_files(repository: str, branch: str) -> Iterator[SampleFile]:
    """Yield the files, each with its bytes, 1.1 MB in all; the text names their location. Takes about 0.1 s."""
    lakes = draw_lakes()
    yield SampleFile(
        "README.md", "text/markdown", _README.format(lakes=_LAKES, repository=repository, branch=branch).encode()
    )
    yield SampleFile("data/lakes.source.md", "text/markdown", _SOURCE.encode())
    for country in _COUNTRIES:
        heights = [0] * _BARS
        for where, depth in zip(lakes.countries, lakes.depths, strict=True):
            if where == country:
                heights[min(int(depth), _BARS - 1)] += 1
        yield SampleFile(f"images/{country.lower()}.png", "image/png", bar_chart(heights))
    yield SampleFile("lakes.parquet", "application/vnd.apache.parquet", zlib.decompress(TABLE.read_bytes(), _GZIP))


def draw_lakes() -> Lakes:
    """Return the rows of the table, the same each time."""
    random = Random(_SEED)
    weights = [random.paretovariate(1) for _ in _COUNTRIES]
    countries = [*random.choices(_COUNTRIES, weights, k=_LAKES - len(_COUNTRIES)), *_COUNTRIES]  # all occur
    names = ["Lake " + "".join(random.choices(_SYLLABLES, k=3)).title() for _ in countries]
    depths = [round(random.lognormvariate(1.6, 1), 1) for _ in countries]
    return Lakes(list(range(1, _LAKES + 1)), names, countries, depths)
