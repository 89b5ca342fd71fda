"""What a query may not read, what is not there any more, and what is not installed: told in words, and nothing is shown."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from graveler.access.permissions import Role
from graveler.errors import ExpiredCommitError, ForbiddenError
from graveler.model import RetentionRules
from graveler.sdk.lake import Lake
from tests.lake.support import World
from tests.retention.support import AGE, collect, write
from tests.sql.arrow.kinds import Kind, Server, open_with
from tests.support.patience import PATIENCE
from tests.support.shell import Shell


@pytest.fixture
def names(served_kind: Kind) -> tuple[str, str]:
    """The names of two repositories with an object each."""
    made = [served_kind.build([("upload", ("t.csv", b"secret\n7\n", "")), ("commit", "x")]) for _ in range(2)]
    for repository in made:
        repository.branch("main").object("u.csv").upload(b"secret\n8\n")
    return made[0].id, made[1].id


@pytest.fixture
def limited(served_kind: Kind, server: Server, names: tuple[str, str], shell: Shell) -> Iterator[Lake]:
    """The lake for who may read the first of them."""
    with open_with(server.url, server.key(Role.READER, names[0]), shell) as lake:
        yield lake


READS: list[Callable[[Lake, str], object]] = [
    lambda lake, query: lake.sql(query).fetchall(),
    lambda lake, query: lake.sql(query).to_arrow().read_all(),
]


@pytest.mark.parametrize(
    "query",
    [
        "FROM objects('{hidden}/main')",
        "FROM objects('{hidden}/main@')",
        "FROM objects('{hidden}')",
        "FROM diff('{hidden}', 'main~1', 'main')",
        "FROM staged('{hidden}/main')",
        "FROM blame('{hidden}/main')",
        "FROM commits('{hidden}/main')",
        "FROM reflog('{hidden}/main')",
        "FROM branches('{hidden}')",
        "FROM tags('{hidden}')",
        "FROM 'graveler://{hidden}/main/t.csv'",
        "FROM 'graveler://{hidden}/main/*.csv'",
        "FROM read_text('graveler://{hidden}/main/t.csv')",
        "FROM objects('{shown}/main') UNION ALL FROM objects('{hidden}/main')",
        "SELECT * FROM 'graveler://{shown}/main/t.csv' JOIN 'graveler://{hidden}/main/t.csv' USING (secret)",
        "COPY (SELECT 1) TO 'graveler://{hidden}/main/new.csv'",
        "COPY (SELECT 1) TO 'graveler://{shown}/main/new.csv'",
    ],
)
def test_what_one_may_not_read_is_refused(limited: Lake, served_kind: Kind, names: tuple[str, str], query: str) -> None:
    shown, hidden = names
    for read in READS:
        with pytest.raises(ForbiddenError) as raised:
            read(limited, query.format(shown=shown, hidden=hidden))
        assert "secret" not in str(raised.value)
        assert "\n" not in str(raised.value)
    staged = served_kind.writer.repository(hidden).branch("main").uncommitted()
    assert [change.path for change in staged] == ["u.csv"]


def test_what_one_may_read_is_shown(limited: Lake, names: tuple[str, str]) -> None:
    shown, hidden = names
    assert limited.sql(f"SELECT path FROM objects('{shown}')").fetchall() == [("t.csv",), ("u.csv",)]
    assert limited.sql(f"FROM 'graveler://{shown}/main/*.csv' ORDER BY ALL").fetchall() == [(7,), (8,)]
    assert limited.sql("SELECT id FROM repositories()").fetchall() == [(shown,)]
    assert hidden not in {repository.id for repository in limited.repositories()}


@pytest.mark.parametrize("path", ["{old}/a.csv", "{old}/*.csv", "main~2/a.csv"])
def test_an_expired_commit_is_told(path: str) -> None:
    """Its data is gone; what is known of its objects stays."""
    world = World()
    old = write(world.main, "main", **{"a.csv": "n\n1\n"})
    world.main.delete("main", ["a.csv"])
    write(world.main, "main", **{"b.csv": "n\n2\n"})
    write(world.main, "main", **{"b.csv": "n\n3\n"})
    world.main.set_retention(RetentionRules(30))
    world.clock.time += 40 * 86_400
    collect(world)
    world.clock.time += AGE
    collect(world)
    name = world.main.repository.name
    lake = Lake(world.lake(), "ada")
    for read in READS:
        with pytest.raises(ExpiredCommitError, match=old[:16]):
            read(lake, f"FROM 'graveler://{name}/{path.format(old=old)}'")
    assert lake.sql(f"SELECT path FROM objects('{name}/{old}')").fetchall() == [("a.csv",)]


WITHOUT = """
import sys
from graveler.lake.lake import Lake as LakeVerbs
from graveler.sdk.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.errors import UnavailableError

_, missing, query, read = sys.argv
lake = Lake(LakeVerbs(MemoryTables(), MemoryObjects), "ada")
lake.repository("demo").create("mem://demo")
sys.modules[missing] = None
try:
    getattr(lake.sql(query), read)()
except UnavailableError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("missing", "query", "read"),
    [
        ("duckdb", "SELECT 1", "fetchall"),
        ("fsspec", "SELECT 1", "fetchall"),
        ("sqlglot", "FROM commits('demo')", "fetchall"),
        ("pyarrow", "FROM commits('demo')", "fetchall"),
        ("pyarrow", "SELECT 1", "to_arrow"),
        ("pyarrow", "SELECT 1", "to_pandas"),
        ("polars", "SELECT 1", "to_polars"),
    ],
)
def test_what_is_not_installed_is_named(missing: str, query: str, read: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, query, read],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert f"needs the package '{missing}', which is not installed; pip install" in done.stdout, done
