"""Stored operations keep their request, and those of the previous version are understood."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import LaterVersionError
from graveler.model import (
    Application,
    CommitID,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    PartialResult,
    SplitParameters,
)
from graveler.operations.one_process import do_in_parts
from graveler.operations.pinned_requests import REQUESTS, LongRequest, Pinned, decode_pinned
from graveler.operations.store import Operation, Operations, OperationState
from graveler.operations.work import Report
from graveler.requests.base import CommitInfo
from graveler.requests.committing import Commit, Rewrite
from graveler.requests.importing import AddressType, ImportAddress, ImportAddresses
from graveler.requests.merging import CherryPick, Merge, Revert
from tests.lake.support import World, put

ID = CommitID("c" * 64)
BEGUN = PartialResult(b"k\xff", "part", MetarangeName("m"))

VERSION_0: list[tuple[str, str, Pinned[Any]]] = [
    (
        "merge",
        (
            f'{{"source":"dev","source_id":"{ID}","destination":"main","message":"m","committer":"ada","metadata":{{"k":"v"}},'
            '"strategies":{"default":"","by_prefix":[["a/","source-wins"]]},"squash":true,"allow_empty":false,"created":7,'
            '"force":true,"untouched":["t/"],"application":{"id":"app","version":3},"beside_uncommitted":true,'
            '"begun":{"upto":"a/8=","part":"part","tree":"m"}}'
        ),
        Pinned(
            request=Merge(
                source="dev",
                destination="main",
                info=CommitInfo("m", "ada", {"k": "v"}, 7),
                strategies=MergeStrategies(MergeStrategy.NONE, (("a/", MergeStrategy.SOURCE_WINS),)),
                squash=True,
                force=True,
                unchanged_prefixes=("t/",),
                application=Application("app", 3),
                beside_uncommitted=True,
            ),
            refs={"source": ID},
            begun=BEGUN,
        ),
    ),
    (
        "revert",
        (
            f'{{"branch":"main","ref":"main~1","ref_id":"{ID}","parent_number":2,"message":"m","committer":"","metadata":{{}},'
            '"allow_empty":true,"created":null,"force":false,"begun":null}'
        ),
        Pinned(
            request=Revert(branch="main", ref="main~1", parent_number=2, info=CommitInfo("m"), allow_empty=True),
            refs={"ref": ID},
        ),
    ),
    (
        "commit",
        (
            '{"branch":"main","message":"m","committer":"ada","metadata":{},"allow_empty":false,"created":null,"force":false,'
            '"owner":"op","begun":{"upto":"a/8=","part":"part","tree":"m"}}'
        ),
        Pinned(request=Commit(branch="main", info=CommitInfo("m", "ada")), owner="op", begun=BEGUN),
    ),
    (
        "import",
        (
            '{"branch":"main","sources":[{"type":"object","address":"s3://b/x","destination":"in/x"}],"message":"m",'
            '"committer":"ada","metadata":{"k":"v"},"force":false,"allow_empty":false,"dry_run":true,"trust_mtime":false}'
        ),
        Pinned(
            request=ImportAddresses(
                branch="main",
                sources=(ImportAddress(AddressType.OBJECT, "s3://b/x", "in/x"),),
                info=CommitInfo("m", "ada", {"k": "v"}),
                dry_run=True,
            )
        ),
    ),
    (
        "rewrite",
        (
            '{"branch":"main","split":{"min_size":1,"max_size":2,"raggedness":3},"message":"m","committer":"","metadata":{},'
            '"created":null,"force":false}'
        ),
        Pinned(request=Rewrite(branch="main", split=SplitParameters(1, 2, 3), info=CommitInfo("m"))),
    ),
]


@pytest.mark.parametrize(("kind", "document", "pinned"), VERSION_0, ids=[kind for kind, _, _ in VERSION_0])
def test_what_the_version_before_wrote_is_the_same_request(kind: str, document: str, pinned: Pinned[Any]) -> None:
    assert decode_pinned(document.encode(), REQUESTS[kind]) == pinned


def test_an_operation_that_the_version_before_began_is_worked_on() -> None:
    world = World()
    put(world.main, {"a": "1"})
    world.main.commit("main", "first")
    world.main.create_branch("dev", "main")
    put(world.main, {"b": "2"}, branch="dev")
    source = world.main.commit("dev", "second")
    request = f'{{"source":"dev","source_id":"{source.id}","destination":"main","message":"old","committer":"ada"}}'
    put(world.main, {"c": "3"}, branch="dev")
    world.main.commit("dev", "later, and not what was asked for")
    now = world.clock.now()
    begun = Operation("op", "merge", request.encode(), OperationState.RUNNING, now, now, branch="main")
    Operations(world.tables, world.main.repository.uid).add(begun)
    made = world.main.commit_of(do_in_parts(world.main, "op", request.encode(), Report()))
    assert (made.message, made.committer, made.parents[1]) == ("old", "ada", source.id)
    assert [entry.path for entry in world.main.objects(made.id)] == ["a", "b"]


some_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
some_info = st.builds(
    CommitInfo,
    some_text,
    some_text,
    st.dictionaries(some_text, some_text, max_size=2),
    st.none() | st.integers(0, 2**33),
    some_text,
)
some_strategies = st.builds(
    MergeStrategies,
    st.sampled_from(MergeStrategy),
    st.tuples(st.tuples(some_text, st.sampled_from(MergeStrategy))),
)
some_request: st.SearchStrategy[LongRequest] = st.one_of(
    st.builds(Commit, branch=some_text, info=some_info, allow_empty=st.booleans(), force=st.booleans()),
    st.builds(
        Merge,
        source=some_text,
        destination=some_text,
        info=some_info,
        squash=st.booleans(),
        unchanged_prefixes=st.tuples(some_text),
        application=st.none() | st.builds(Application, some_text, st.integers(0, 9)),
        expected_head=st.none() | st.just(ID),
        expected_destination=st.none() | st.just(ID),
    ),
    st.builds(Revert, branch=some_text, ref=some_text, parent_number=st.integers(0, 3), info=some_info),
    st.builds(CherryPick, branch=some_text, ref=some_text, info=some_info, strategies=some_strategies),
    st.builds(Rewrite, branch=some_text, split=st.just(SplitParameters(1, 2, 3)), info=some_info),
    st.builds(
        ImportAddresses,
        branch=some_text,
        sources=st.tuples(st.builds(ImportAddress, st.sampled_from(AddressType), some_text, some_text)),
        info=some_info,
    ),
)
some_begun = st.builds(PartialResult, st.binary(max_size=4), some_text, st.builds(MetarangeName, some_text))


def test_a_request_of_a_later_version_is_refused() -> None:
    document = msgspec.json.encode(replace(Pinned(request=Commit(branch="main", info=CommitInfo("m"))), version=2))
    with pytest.raises(LaterVersionError, match="later version of graveler: it has format 2"):
        decode_pinned(document, Commit)


@given(some_request, st.dictionaries(some_text, st.just(ID), max_size=1), some_text, st.none() | some_begun)
def test_what_is_pinned_is_read_as_it_was_written(
    request: LongRequest, refs: dict[str, CommitID], owner: str, begun: PartialResult | None
) -> None:
    pinned = Pinned(request=request, refs=refs, owner=owner, begun=begun)
    assert decode_pinned(msgspec.json.encode(pinned), type(request)) == pinned
