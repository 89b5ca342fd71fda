"""Fields of the same name map by themselves, from a request to its document and back."""

import msgspec
import pytest
from msgspec import Struct

from graveler.model import (
    Application,
    CommitID,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    SplitParameters,
)
from graveler.requests import committing, merging
from graveler.requests import refs as requests
from graveler.requests.base import CommitInfo
from graveler.wire import refs
from graveler.wire.mapping import document_of, request_of

INFO = CommitInfo("why", "me", {"k": "v", "é": '"'}, 7, "request-1")
STRATEGIES = MergeStrategies(MergeStrategy.DEST_WINS, (("a/", MergeStrategy.SOURCE_WINS),))
OF_INFO = {"message", "metadata", "created"}
OTHERWISE = {"strategy", "strategies", "commit_overrides"}
"""Fields of documents that the API shapes in another way than the lake."""
PAIRS: list[tuple[type[Struct], Struct]] = [
    (refs.BranchCreation, requests.CreateBranch(name="b", source="main~2", hidden=True, owner="o", force=True)),
    (refs.RenameCreation, requests.RenameBranch(old="a", new="b", force=True)),
    (refs.TagCreation, requests.CreateTag(name="t", ref="main", force=True)),
    (refs.CommitCreation, committing.Commit(branch="b", info=INFO, allow_empty=True, force=True)),
    (
        refs.CommitCreation,
        committing.CommitMetarange(
            branch="b", metarange=MetarangeName("m"), parent=CommitID("p"), info=INFO, allow_empty=True, force=True
        ),
    ),
    (
        refs.Merge,
        merging.Merge(
            source="s",
            destination="d",
            info=INFO,
            squash=True,
            allow_empty=True,
            force=True,
            unchanged_prefixes=("a/", "é'\""),
            application=Application("app", 3),
            beside_uncommitted=True,
            expected_head=CommitID("c"),
            expected_destination=CommitID("e"),
        ),
    ),
    (
        refs.RevertCreation,
        merging.Revert(
            branch="b", ref="r", parent_number=2, info=INFO, strategies=STRATEGIES, allow_empty=True, force=True
        ),
    ),
    (
        refs.CherryPickCreation,
        merging.CherryPick(
            branch="b", ref="r", parent_number=2, info=INFO, strategies=STRATEGIES, allow_empty=True, force=True
        ),
    ),
]
pairs = pytest.mark.parametrize(("kind", "request_"), PAIRS, ids=lambda it: getattr(it, "__name__", ""))


@pairs
def test_a_request_comes_back_from_its_document(kind: type[Struct], request_: Struct) -> None:
    mapped = set(kind.__struct_fields__)
    sent = document_of(kind, request_, **dict.fromkeys(mapped & OTHERWISE))
    document = msgspec.json.decode(msgspec.json.encode(sent), type=kind)
    given = {
        name: getattr(request_, name)
        for name in request_.__struct_fields__
        if name not in mapped or name == "force" or name in OTHERWISE
    }
    assert request_of(type(request_), document, **given) == request_
    for name in OF_INFO & mapped:
        assert getattr(document, name) == getattr(INFO, name)


@pairs
def test_every_field_of_a_document_is_a_field_of_its_request(kind: type[Struct], request_: Struct) -> None:
    there = {*request_.__struct_fields__} | OF_INFO | OTHERWISE
    assert set(kind.__struct_fields__) <= there


def test_what_a_document_leaves_out_has_the_default_of_the_request() -> None:
    made = request_of(merging.Merge, refs.Merge(), source="s", destination="d")
    assert made == merging.Merge(source="s", destination="d")


def test_force_counts_only_if_it_is_given() -> None:
    document = refs.Merge(force=True)
    assert not request_of(merging.Merge, document, source="s", destination="d").force
    assert request_of(merging.Merge, document, source="s", destination="d", force=True).force


def test_what_is_given_goes_before_what_is_there() -> None:
    body = document_of(refs.BranchCreation, requests.CreateBranch(name="b", source="s"), owner=None)
    assert body == refs.BranchCreation("b", "s", False, False, None)
    split = SplitParameters(1, 2, 3)
    rewrite = committing.Rewrite(branch="b", split=split, info=INFO)
    made = document_of(refs.RewriteCreation, rewrite, **msgspec.structs.asdict(split))
    assert made == refs.RewriteCreation(1, 2, 3, "why", {"k": "v", "é": '"'}, False)
