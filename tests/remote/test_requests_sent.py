"""The HTTP requests of each verb and each of its options are those in ``tests/golden/http/requests.json``, byte for byte.

Published servers and proxies have seen them. ``python -m tests.remote.test_requests_sent`` writes the file again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from graveler.errors import GravelerError
from graveler.lake.context import Context
from graveler.lake.reading.summary import SummaryBounds
from graveler.model import (
    Application,
    Candidate,
    CandidateDetails,
    CandidateState,
    CheckTrial,
    CommitID,
    MergeStrategies,
    MergeStrategy,
    MetarangeID,
    MetarangeName,
    ObjectEntry,
    RefSelection,
    RetentionRules,
    Rule,
    Rules,
    RuleTrial,
    SplitParameters,
    StatusState,
    Totals,
)
from graveler.operations.store import OperationState
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository, runs_remotely
from graveler.requests import committing, iceberg, importing, merging, pulls, refs, setting_changes, staging, statuses
from graveler.requests.base import CommitInfo, Gated, Request
from graveler.requests.exporting import Export
from graveler.requests.fields import fields_of
from graveler.requests.importing import AddressType, ImportAddress, ImportChanges, ListingOptions
from graveler.requests.pulls import PullComment, PullRequest
from graveler.wire import (
    config_documents,
    difference_documents,
    documents,
    imports,
    object_documents,
    operation_documents,
    pull_documents,
    status_documents,
)
from graveler.wire.documents import Pagination
from graveler.wire.refs import MergeBase, MergeResult, RefDescription, Reflog, WrittenVersion
from tests.make_request_docs import every_request
from tests.remote.scripted import Asked, Reply, Scripted, scripted
from tests.support.shell import Shell

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "http" / "requests.json"

ID = CommitID("c" * 64)
PARENT = CommitID("d" * 64)
CHANGE = iceberg.TableChange(
    iceberg.Identifier(("s", "é"), "t"),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},),
    ({"action": "remove-snapshots", "snapshot-ids": [7]},),
)
INFO = CommitInfo("why é", "me", {"k": "v"}, None, "request-1")
DATED = msgspec.structs.replace(INFO, created=7)
STRATEGIES = MergeStrategies(MergeStrategy.DEST_WINS, (("a/", MergeStrategy.SOURCE_WINS),))
ENTRY = ObjectEntry("a/é b", "s3://b/x", 3, "0" * 32, 1_700_000_000, "text/plain", {"k": "v"})
OTHER = ObjectEntry("b", "s3://b/y", 4, "1" * 32, 1_700_000_001)
CANDIDATE = Candidate(id="0" * 32, state=CandidateState.OPEN, verb="merge", destination="d", head=ID)
COMMIT = documents.Commit(ID, [PARENT], "me", "m", 1_700_000_000, MetarangeID("e" * 64), {}, 2)
PULL = pull_documents.pull_document(
    PullRequest(number=7, title="t", source="s", destination="d", source_life="", destination_life="")
)
COMMENT = pull_documents.comment_document(PullComment(1, "é", "ada", "ada", 7))
SELECTION = RefSelection(
    details=("commit", "counts"), base="a/b~1", by_update=True, prefix="p", after="7:a é", amount=2000
)
FORCE: Final = {"force": True}
IMPORT: Final[dict[str, Any]] = {"info": INFO, "force": True, "allow_empty": True, "dry_run": True}
REPLAY: Final[dict[str, Any]] = {
    "parent_number": 2,
    "info": INFO,
    "strategies": STRATEGIES,
    "allow_empty": True,
    "force": True,
}

TERMS: Final[dict[str, Any]] = {"message": "m", "strategies": STRATEGIES, "squash": True}

VERBS: Final[list[tuple[Request[Any], dict[str, Any]]]] = [
    (
        statuses.PostStatus(commit="a/s~1", name="dbt/é %+", state=StatusState.SUCCESS),
        {"description": "fine", "url": "https://ci/1", "expires": 60, "of": "commit"},
    ),
    (
        statuses.RunChecks(ref="a/r~1", branch="b"),
        {"base": "c", "checks": ("keep",), "definitions": {"keep": {"kind": "no-deletes"}}},
    ),
    (iceberg.CommitTables(branch="b", tables=(CHANGE,)), {"info": INFO}),
    (committing.Commit(branch="b"), {"info": DATED, "allow_empty": True, "force": True}),
    (
        committing.CommitMetarange(branch="b", metarange=MetarangeName("m")),
        {"parent": PARENT, "info": DATED, "allow_empty": True, "force": True},
    ),
    (committing.Rewrite(branch="b", split=SplitParameters(1, 2, 3)), {"info": INFO, "force": True}),
    (
        merging.Merge(source="a/s~1", destination="d"),
        {
            "info": INFO,
            "strategies": STRATEGIES,
            "squash": True,
            "allow_empty": True,
            "force": True,
            "unchanged_prefixes": ("a/", "é'\""),
            "application": Application("app", 3),
            "beside_uncommitted": True,
            "expected_head": ID,
            "expected_destination": PARENT,
            "pull_request": "7",
        },
    ),
    (merging.Revert(branch="b", ref="a/r"), REPLAY),
    (merging.CherryPick(branch="b", ref="a/r"), REPLAY),
    (refs.CreateBranch(name="n", source="main~2"), {"hidden": True, "owner": "o", "force": True}),
    (refs.RenewBranch(name="n", owner="o"), {}),
    (refs.ReleaseBranch(name="n", owner="o p"), {}),
    (refs.DeleteBranch(name="n"), {"at": ID, "force": True}),
    (refs.RenameBranch(old="a", new="b"), FORCE),
    (refs.HardReset(branch="b", ref="a/r~1"), {"request_id": "request-1", "force": True}),
    (refs.Undo(branch="b"), {"request_id": "request-1", "force": True}),
    (refs.CreateTag(name="t/é", ref="main"), FORCE),
    (refs.DeleteTag(name="t/é"), FORCE),
    (
        pulls.CreatePullRequest(title="t é", source="s", destination="d"),
        {**TERMS, "description": "why", "draft": True, "reviewers": ("ada",), "request_id": "request-1"},
    ),
    (
        pulls.UpdatePullRequest(pull="7"),
        {
            **TERMS,
            "title": "t é",
            "description": "why",
            "status": "closed",
            "draft": False,
            "reviewers": (),
            "when_ready": False,
        },
    ),
    (pulls.ApprovePullRequest(pull="7", source_commit=ID), {}),
    (pulls.WithdrawApproval(pull="7"), {}),
    (pulls.CommentOnPullRequest(pull="7", text="é"), {"request_id": "request-1"}),
    (
        pulls.MergePullRequest(pull="7"),
        {
            "info": INFO,
            "strategies": STRATEGIES,
            "squash": True,
            "when_ready": True,
            "expected_head": ID,
            "beside_uncommitted": True,
            "allow_empty": True,
            "force": True,
        },
    ),
    (setting_changes.SetMetadata(metadata={"k": "é"}), FORCE),
    (setting_changes.DeleteMetadata(keys=("k", "l")), FORCE),
    (setting_changes.SetProtection(patterns=("a", "b*", "a")), {"if_match": "etag", "force": True}),
    (setting_changes.Protect(patterns=("a", "c")), FORCE),
    (setting_changes.Unprotect(patterns=("main",)), FORCE),
    (setting_changes.SetRetention(rules=RetentionRules(7, {"main": 9})), FORCE),
    (setting_changes.DeleteRetention(), FORCE),
    (setting_changes.SetImportSources(prefixes=("s3://b/",)), {"prefixes": None, "force": True}),
    (setting_changes.SetReadOnly(read_only=True), {"read_only": False}),
    (committing.PublishCandidate(candidate="0" * 32), {}),
    (committing.WithdrawCandidate(candidate="0" * 32), {}),
    (setting_changes.SetRules(rules=(Rule(name="r", branches=("main",), frozen="now"),)), {"rules": (), "if_match": 7}),
    (
        staging.Upload(branch="b", path="a/é b"),
        {"content_type": "text/plain", "metadata": {"k": "v"}, "if_absent": True, "force": True, "if_match": "etag"},
    ),
    (staging.Link(branch="b", entry=ENTRY), {"if_absent": True, "force": True, "if_match": "etag"}),
    (staging.LinkMany(branch="b", entries=(ENTRY, OTHER)), FORCE),
    (staging.Delete(branch="b", objects=("a", "a")), {"objects": ("a", "b"), "force": True, "if_match": "etag"}),
    (
        staging.Copy(branch="b", source_path="a/é b", destination_path="c d"),
        {"source_ref": "other", "force": True},
    ),
    (
        staging.CopyPrefix(branch="b", source_prefix="a/", destination_prefix="c/"),
        {"source_ref": "other", "force": True},
    ),
    (staging.Move(branch="b", source_path="a", destination_path="c"), FORCE),
    (staging.MovePrefix(branch="b", source_prefix="a/", destination_prefix="c/"), FORCE),
    (staging.UpdateMetadata(branch="b", path="a/é b", metadata={"k": "v"}), FORCE),
    (staging.Reset(branch="b"), {"path": "a/é b", "prefix": "a/", "force": True}),
    (
        importing.ImportAddresses(
            branch="b",
            sources=(
                ImportAddress(AddressType.OBJECT, "s3://b/x", "in/x"),
                ImportAddress(AddressType.COMMON_PREFIX, "s3://b/y/", "in/"),
            ),
        ),
        {**IMPORT, "trust_mtime": True, "folders": True, "exclude": ("*.tmp", "x"), "ignore": True},
    ),
    (
        importing.ImportFolder(branch="b", folder=Path("/data/in")),
        {**IMPORT, "destination": "in/", "trust_mtime": True, "exclude": ("*.tmp",), "ignore": True},
    ),
    (
        importing.ImportListing(branch="b", listing=(Path("listing.csv"),), options=ListingOptions(base="s3://b/")),
        {**IMPORT, "options": ListingOptions(destination="in/", base="s3://b/")},
    ),
]
"""Each request that works behind a server, and a value for each of its options."""

READS: Final[dict[str, Callable[[RemoteRepository], object]]] = {
    "repository": lambda repository: repository.repository,
    "rules": lambda repository: repository.rules(),
    "try_rules": lambda repository: repository.gates.try_rules("a/r", "b"),
    "try_rules of a tag": lambda repository: repository.gates.try_rules("a/r", "t", "tag", [Rule(name="r")]),
    "candidates": lambda repository: repository.gates.candidates("a", 5),
    "candidate": lambda repository: repository.gates.candidate("0" * 32),
    "rule_reports": lambda repository: repository.gates.reports("a", 5),
    "branch": lambda repository: repository.branch("b"),
    "branches": lambda repository: repository.branches("p", "a", 2000),
    "branches hidden": lambda repository: repository.branches(show_hidden=True),
    "tag": lambda repository: repository.tag("t/é"),
    "tags": lambda repository: repository.tags("p", "a", 5),
    "detailed_branches": lambda repository: repository.detailed_branches(SELECTION, show_hidden=True),
    "detailed_tags": lambda repository: repository.detailed_tags(SELECTION),
    "detailed_tags by name": lambda repository: repository.detailed_tags(RefSelection()),
    "reflog": lambda repository: repository.reflog("b", 5),
    "commit_of": lambda repository: repository.commit_of("a/r~1"),
    "describe_ref": lambda repository: repository.describe_ref("a/r~1"),
    "stat": lambda repository: repository.stat("a/r", "a/é b"),
    "stat_many": lambda repository: repository.stat_many("r", ["a", "b"]),
    "list_objects": lambda repository: repository.list_objects("r", prefix="p", after="a", delimiter="/", amount=5),
    "objects": lambda repository: list(repository.objects("r", "p")),
    "view": lambda repository: list(repository.view("r").objects("p")),
    "du": lambda repository: repository.du("r", "p", "/"),
    "native": lambda repository: repository.native("r", ENTRY),
    "uncommitted": lambda repository: repository.uncommitted("b", prefix="p", after="a", delimiter="/", amount=5),
    "uncommitted_summary": lambda repository: repository.uncommitted_summary("b", prefix="p", delimiter="/"),
    "diff": lambda repository: repository.diff("a/l", "r", prefix="p", after="a", delimiter="/", amount=5),
    "compare": lambda repository: repository.compare("l", "a/r", prefix="p"),
    "diff_summary": lambda repository: repository.diff_summary("l", "r", prefix="p", delimiter="/"),
    "diff_summary by bytes": lambda repository: repository.diff_summary(
        "l", "r", delimiter="/", bounds=SummaryBounds(after="a/", amount=5, by_bytes=True)
    ),
    "compare_summary": lambda repository: repository.compare_summary("l", "r"),
    "compare_summary page": lambda repository: repository.compare_summary(
        "l", "r", delimiter="/", bounds=SummaryBounds(after="a/", amount=5)
    ),
    "uncommitted_summary bounded": lambda repository: repository.uncommitted_summary(
        "b", bounds=SummaryBounds(most=1000)
    ),
    "merge_base": lambda repository: repository.merge_base("l", "a/r"),
    "preview_merge": lambda repository: repository.preview_merge("s", "d", MergeStrategy.DEST_WINS),
    "preview_merge by prefix": lambda repository: repository.preview_merge("s", "d", STRATEGIES),
    "log": lambda repository: repository.log("r"),
    "log options": lambda repository: repository.log(
        "r",
        after=ID,
        amount=5,
        first_parent=True,
        since=7,
        stop_at="s",
        paths=("a", "é"),
        prefixes=("p/",),
        author="ä",
        text="t",
        limit=True,
        within=2.5,
    ),
    "blame": lambda repository: repository.blame("r", "a/é b"),
    "annotate": lambda repository: repository.annotate("r", prefix="p", after="a", delimiter="/", amount=5),
    "annotate_within": lambda repository: repository.annotate_within(
        "r", 2.5, prefix="p", after="a", delimiter="/", amount=5, position="kA"
    ),
    "pull_request": lambda repository: repository.pull_request("7"),
    "pull_requests": lambda repository: repository.pull_requests("open", after="9", amount=2000, prefix="7"),
    "pull_comments": lambda repository: repository.pull_comments("7", after="1", amount=5),
    "written_by": lambda repository: repository.written_by("b", Application("app", 3)),
    "statuses": lambda repository: repository.statuses("a/r"),
    "expect_upload": lambda repository: repository.expect_upload("b", "a/é b"),
}


def options_of(request: Request[Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all options of a request: those of its own, and those of its kind."""
    return {**options, "bypass": "why"} if isinstance(request, Gated) else options


def variants() -> Iterator[tuple[str, Request[Any]]]:
    """Yield each request with its defaults, with each option alone, and with all options."""
    for request, more in VERBS:
        options = options_of(request, more)
        name = type(request).__name__
        yield name, request
        for option, value in options.items():
            yield f"{name} {option}", msgspec.structs.replace(request, **{option: value})
        if len(options) > 1:
            yield f"{name} everything", msgspec.structs.replace(request, **options)


def server(script: Scripted) -> Callable[[Asked], Reply]:
    """Return a server that is satisfied with every request."""
    page = Pagination(False, "", 2)
    address = object_documents.StagingLocation("s3://b/new", f"{script.url}/store/new", 9_999_999_999)
    store = config_documents.StorageConfig("local", "", "", True, False, True, "", False, "")
    stats = object_documents.object_document(ENTRY)
    shown = msgspec.structs.replace(
        stats, physical_address=f"{script.url}/store/x", physical_address_expiry=9_999_999_999
    )
    changes = ImportChanges(1, 3)
    status = status_documents.Status("dbt", StatusState.SUCCESS, "", "", "me", "me", 1_700_000_000, None, "tree", "")
    operation = operation_documents.OperationDocument(
        "op", "import", OperationState.COMPLETED, 1, 2, 1, ID, ID, "", changes=changes
    )
    answers: list[tuple[str, int, Any]] = [
        (
            "GET config",
            200,
            config_documents.Config(
                config_documents.VersionConfig(), store, features=[config_documents.CONDITIONAL_DELETES]
            ),
        ),
        ("PUT /store/.*", 200, ""),
        ("GET repo", 200, documents.Repository("repo", 1, "main", "s3://b/repo")),
        ("GET repo/metadata", 200, {"k": "v"}),
        ("GET repo/settings/branch_protection", 200, [{"pattern": "main"}]),
        ("GET repo/settings/gc_rules", 200, {"default_retention_days": 7, "branches": []}),
        ("GET repo/settings/import_sources", 200, {"prefixes": None}),
        ("(GET|PUT) repo/settings/rules", 200, Rules(7)),
        ("POST repo/settings/rules/test", 200, RuleTrial()),
        ("POST repo/settings/rules/checks", 200, CheckTrial(ID)),
        ("GET repo/candidates", 200, {"pagination": page, "results": []}),
        ("GET repo/candidates/[^/]+", 200, CandidateDetails(CANDIDATE)),
        ("GET repo/settings/rules/reports", 200, {"pagination": page, "results": []}),
        ("GET repo/(branches|tags)", 200, documents.RefList(page, [documents.Ref("b", ID)])),
        ("GET repo/branches/[^/]+", 200, documents.Ref("b", ID)),
        ("GET repo/tags/[^/]+", 200, documents.Ref("t", ID)),
        ("GET repo/commits/[^/]+", 200, COMMIT),
        ("GET repo/commits/[^/]+/statuses", 200, status_documents.StatusList([status])),
        ("POST repo/commits/[^/]+/statuses", 201, status),
        ("GET repo/refs/[^/]+", 200, RefDescription("r", "tag", ID, COMMIT, None, False, False)),
        ("GET repo/branches/[^/]+/reflog", 200, Reflog([])),
        ("GET repo/branches/[^/]+/written", 200, WrittenVersion(ID)),
        ("GET repo/refs/[^/]+/objects/stat.*presign=true", 200, shown),
        ("GET repo/refs/[^/]+/objects/stat", 200, stats),
        ("POST repo/refs/[^/]+/objects/stats", 200, object_documents.StatsOfMany([stats], [])),
        (
            "GET repo/refs/[^/]+/objects/ls",
            200,
            object_documents.ObjectStatsList(page, [stats, object_documents.object_document(OTHER)]),
        ),
        ("GET repo/refs/[^/]+/usage", 200, difference_documents.UsageDocument(1, 2, [])),
        ("GET .*/summary", 200, difference_documents.SummaryDocument(Totals(), [])),
        (
            "GET .*/diff(/[^/]+)?",
            200,
            difference_documents.DiffList(page, [difference_documents.Diff("changed", "a/é b", "object")]),
        ),
        ("GET repo/pulls", 200, pull_documents.PullRequestsList(page, [PULL])),
        ("POST repo/pulls", 201, pull_documents.PullRequestCreationResponse("7")),
        ("GET repo/pulls/7|(POST|DELETE) repo/pulls/7/approvals", 200, PULL),
        ("GET repo/pulls/7/comments", 200, pull_documents.PullRequestComments(page, [COMMENT])),
        ("POST repo/pulls/7/comments", 201, COMMENT),
        ("PUT repo/pulls/7/merge", 200, MergeResult(ID)),
        ("PATCH repo/pulls/7", 204, ""),
        ("GET repo/refs/[^/]+/merge/[^/]+", 200, MergeBase(ID, ID, PARENT)),
        ("GET .*/preview", 200, difference_documents.MergePreview(ID, page, [], ID, ID, Totals(), 0)),
        ("GET repo/refs/[^/]+/commits", 200, documents.CommitList(page, [COMMIT])),
        ("GET repo/refs/[^/]+/blame", 200, COMMIT),
        ("GET repo/refs/[^/]+/annotate", 200, {"pagination": page, "results": []}),
        ("GET .*/staging/backing", 200, address),
        ("PUT .*/staging/backing", 200, stats),
        ("POST .*/staging/links", 200, {"results": []}),
        ("POST .*/objects/delete", 200, object_documents.ObjectErrorList([])),
        ("POST .*/objects/copy", 201, stats),
        ("POST repo/branches", 201, None),
        ("POST .*/merge/[^/]+", 200, MergeResult(ID)),
        ("POST .*/revert", 204, ""),
        ("POST .*/(rename|undo)|POST repo/tags", 200, documents.Ref("b", ID)),
        ("POST .*/import(/listing)?(/dry-run)?", 202, imports.ImportCreationResponse("op")),
        ("GET .*/import", 200, imports.ImportStatus(True, "", 1, commit=COMMIT, changes=changes)),
        ("GET repo/operations/op", 200, operation),
        ("POST .*/transactions/commit", 204, ""),
        ("POST .*", 201, COMMIT),
        ("(PUT|DELETE) .*", 204, ""),
    ]
    patterns = [(re.compile(pattern), status, document) for pattern, status, document in answers]

    def answer(request: Asked) -> Reply:
        path, _, query = request.target.partition("?")
        shown = path.removeprefix("/api/v1/").removeprefix("repositories/")
        for pattern, status, document in patterns:
            where = f"{request.method} {shown}?{query}" if "=" in pattern.pattern else f"{request.method} {shown}"
            if pattern.fullmatch(where) or ("=" in pattern.pattern and pattern.match(where)):
                body = ID.encode() if document is None else b"" if document == "" else msgspec.json.encode(document)
                return Reply(status, body, {"etag": '"7"'} if "protection" in path else {})
        raise AssertionError(f"no answer to {request.method} {request.target}")

    return answer


def refused(script: Scripted) -> Callable[[Asked], Reply]:
    """Return a server that finds a conflict in every merge, and otherwise is satisfied."""
    satisfied = server(script)
    conflict = {"message": "conflict", "code": "merge_conflict", "fields": {"source": "s", "destination": "d"}}

    def answer(request: Asked) -> Reply:
        path = request.target.partition("?")[0]
        if request.method == "POST" and re.search(r"/merge/|/revert$|/cherry-pick$", path):
            return Reply(409, msgspec.json.encode(conflict))
        return satisfied(request)

    return answer


def sent(script: Scripted, work: Callable[[RemoteRepository], object], answer: Callable[[Asked], Reply]) -> Any:
    """Return the requests of a call, and the name of its error."""
    script.otherwise = answer
    script.asked.clear()
    connection = Connection(script.url, "key", "secret")
    error = ""
    try:
        outcome = work(RemoteRepository(connection, "repo"))
        if isinstance(outcome, Iterator):
            list(outcome)
    except GravelerError as raised:
        error = type(raised).__name__
    finally:
        connection.close()
    return [[*map(line, script.asked)], *([error] if error else [])]


HEADERS: Final = ("content-type", "if-match", "if-none-match", "prefer", "range")


def line(request: Asked) -> str:
    """Return one request as text, with the headers that the verb decides."""
    named = [f"{name}: {request.headers[name]}" for name in HEADERS if name in request.headers]
    key = request.headers.get("idempotency-key")
    if key is not None:
        named.append(f"idempotency-key: {'(random)' if re.fullmatch('[0-9a-f]{32}', key) else key}")
    body = request.body if not request.target.startswith("/store/") else b"(bytes)"
    return "\n".join([f"{request.method} {request.target}", *named, *([body.decode()] if body else [])])


def run(request: Request[Any]) -> Callable[[RemoteRepository], object]:
    """Return what runs a request."""
    return lambda repository: repository.run(request, Context(body=b"abc"))


def everything() -> dict[str, Any]:
    """All requests of all cases, by the case's name."""
    conflicts = [request for request, _ in VERBS if isinstance(request, merging.Merge | merging.Replay)]
    with scripted() as script:
        satisfied, conflicting = server(script), refused(script)
        golden = {name: sent(script, run(request), satisfied) for name, request in variants()}
        golden |= {f"read {name}": sent(script, work, satisfied) for name, work in READS.items()}
        for request in conflicts:
            golden[f"{type(request).__name__} in conflict"] = sent(script, run(request), conflicting)
    return golden


@pytest.fixture
def listing(tmp_path: Path, shell: Shell) -> None:
    shell.cd(tmp_path)
    write_listing(tmp_path)


def test_an_isolation_level_is_not_sent_to_a_server_that_would_ignore_it() -> None:
    strategies = MergeStrategies(isolation="snapshot")
    works: list[Callable[[RemoteRepository], object]] = [
        run(merging.Merge(source="s", destination="d", strategies=strategies)),
        lambda repository: repository.preview_merge("s", "d", strategies),
    ]
    with scripted() as script:
        satisfied = server(script)

        def answer_of_this_version(request: Asked) -> Reply:
            reply = satisfied(request)
            if request.target != "/api/v1/config":
                return reply
            config = msgspec.json.decode(reply.body)
            return Reply(200, msgspec.json.encode(config | {"features": [config_documents.MERGE_ISOLATION]}))

        for work in works:
            assert sent(script, work, satisfied) == [["GET /api/v1/config"], "InvalidError"]
            ((looked_at, merge, *_),) = sent(script, work, answer_of_this_version)
            assert looked_at == "GET /api/v1/config"
            assert "isolation" in merge
            assert "snapshot" in merge


def write_listing(folder: Path) -> None:
    """Write the listing that a case imports."""
    text = "Key,Size,ETag,LastModifiedDate\nx,3,00000000000000000000000000000000,2024-01-01T00:00:00Z\n"
    (folder / "listing.csv").write_text(text)


@pytest.mark.usefixtures("listing")
def test_each_verb_sends_the_requests_that_it_always_sent() -> None:
    golden = json.loads(GOLDEN.read_text())
    now = everything()
    assert now.keys() == golden.keys()
    for name, requests in golden.items():
        assert now[name] == requests, name


def test_every_request_that_works_through_a_server_is_sent_here() -> None:
    there = {type(request) for request, _ in VERBS}
    assert there == {kind for kind in every_request() if runs_remotely(kind)} - {Export}
    for request, more in VERBS:
        options = options_of(request, more)
        optional = {name for name, field in fields_of(type(request)).items() if not field.is_required}
        assert optional - {"copy", "label"} <= options.keys(), request


if __name__ == "__main__":
    import os
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        write_listing(Path(folder))
        here = Path.cwd()
        os.chdir(folder)
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(json.dumps(everything(), indent=1, ensure_ascii=False) + "\n")
        os.chdir(here)
