"""Tables of a lake that was moved to another bucket: the tests of lakes in folders again, and rewriting that is interrupted."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

import graveler
from graveler.sdk.iceberg_tables import Tables
from graveler.storage.objects.port import NotPermittedError
from tests.lake.iceberg import test_table_relocation
from tests.lake.iceberg.histories import Histories
from tests.lake.iceberg.test_table_relocation import MovedLake
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.proxy import FaultyProxy, Schedule, s3_reply
from tests.support.retold import tell_again
from tests.support.servers import s3proxy
from tests.support.shell import Shell


class MoveOfBucket:
    """A lake on S3 whose objects are copied to another bucket, or to a prefix ``inside`` of the former one, and then removed; and
    a new table to which the repository is restored."""

    def __init__(self, shell: Shell, caches: Path, *, inside: str = "") -> None:
        self._shell, self._caches = shell, caches
        self._before = self._new_lake("before")
        self.after = self._new_lake("after")
        if inside:
            self.after |= {"objects": f"{self._before['objects']}/{inside}"}
        self.roots = f"{self._before['objects']}/", f"{self.after['objects']}/"

    def begin(self) -> Histories:
        self._export(self._before)
        return Histories(None, self._before)

    def finish(self) -> graveler.Lake:
        with graveler.open(**self._before) as handle:
            dump = handle.own.dump("sales")
            source = handle.own.repository("sales").parts.objects
        former, root = self.roots
        namespace = root + source.namespace.removeprefix(former)
        self._export(self.after)
        handle = graveler.open(**self.after, user="ada")
        target = handle.own.store_of(namespace)
        for stored in list(source.list()):
            target.put(stored.key, source.get(stored.key))
            source.delete(stored.key)
        handle.own.restore(namespace, dump.id, "sales")
        return handle

    def catalog(self, ref: str) -> Catalog:
        return load_catalog("test", **{"py-catalog-impl": "graveler.iceberg.Catalog", "warehouse": f"sales@{ref}"})

    def _new_lake(self, name: str) -> dict[str, Any]:
        variables, place = new_lake_on_aws(name, self._caches / name)
        self._shell.export_all(variables)
        return place

    def _export(self, place: dict[str, Any]) -> None:
        """Let the environment name a lake."""
        self._shell.export_all(
            {
                "GRAVELER_TABLES": place["location"],
                "GRAVELER_OBJECTS": place["objects"],
                "AWS_REGION": place["region"],
                "AWS_ENDPOINT_URL_S3": place["s3_endpoint_url"],
                "AWS_ENDPOINT_URL_DYNAMODB": place["dynamodb_endpoint_url"],
            }
        )


@pytest.fixture
def move(shell: Shell, tmp_path: Path) -> MoveOfBucket:
    return MoveOfBucket(shell, tmp_path)


IN_FOLDERS = {
    "test_a_repository_that_is_restored_from_a_copy_elsewhere_has_its_locations_rewritten": "is in memory",
    "test_a_lake_that_is_opened_through_a_link_was_not_moved": "S3 has no links",
}
tell_again(globals(), test_table_relocation, IN_FOLDERS, "move")


def refusing_after(allowed: int) -> Schedule:
    """Return the schedule of a store that answers so many requests, and refuses all others."""
    return lambda _, ordinal: s3_reply("AccessDenied", 403) if ordinal >= allowed else None


@pytest.mark.share(3)
def test_a_rewriting_that_ends_at_any_request_is_repeated(shell: Shell, tmp_path: Path) -> None:
    """Each attempt is of another process, which S3 stops answering after some requests. The former place is a prefix of the new
    one, so a location that was rewritten twice would be a wrong one."""
    move = MoveOfBucket(shell, tmp_path, inside="copy")
    lake = MovedLake(move, 0)
    with lake.handle, FaultyProxy(s3proxy()) as proxy:
        head = lake.repository.commit_of("main")
        place = {**move.after, "s3_endpoint_url": proxy.url}
        rewritten, allowed = None, 1
        while rewritten is None:
            proxy.begin(refusing_after(allowed))
            with graveler.open(**place, user="ada") as handle:
                try:
                    rewritten = handle.repository("sales").branch("main").tables.rewrite_locations()
                except NotPermittedError:
                    assert lake.repository.commit_of("main") == head
                    allowed *= 2
        assert allowed > 32, "it has been interrupted often"
        assert set(rewritten.tables) == set(lake.former)
        assert lake.repository.commit_of("main").parents == (head.id,)
        lake.expect_rewritten()
        assert Tables(lake.repository, "main").rewrite_locations().tables == ()
