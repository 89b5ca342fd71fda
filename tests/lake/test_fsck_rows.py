"""fsck of the table: a damaged row is found and named with what it affects, and nothing else is; repairable rows are repaired."""

import pytest
from msgspec import structs

from graveler.history.owners import Owners
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.gates.statuses import Statuses
from graveler.lake.objects.recorded_uploads import complete_upload, create_upload, find_upload
from graveler.lake.objects.upload_records import UploadRecords
from graveler.model import Application, CommitID, ObjectEntry, RepositoryUID, StatusState
from graveler.staging.tokens import new_token
from graveler.storage.tables.port import Item, Key
from graveler.tree.record import RecordCodec
from tests.lake.fsck_support import NAMESPACE, OUTSIDE, FolderLake, kinds, link, names, one

K = FindingKind


# Refs and the reference log


@pytest.mark.parametrize("ref", ["branch", "tag"])
def test_a_damaged_ref_is_named_and_the_others_are_still_looked_at(lake: FolderLake, ref: str) -> None:
    key, name = (lake.branch_key("dev"), "dev") if ref == "branch" else (lake.tag_key("v1"), "v1")
    lake.smash_item(key)
    report = lake.fsck()
    finding = one(report)
    assert (finding.kind, finding.what) == (K.REF, f"{ref} {name!r}")
    assert names(finding) == {(name, False)}
    assert report.counts.branches + report.counts.tags == 4


@pytest.mark.parametrize("attributes", [{"commit": None}, {"open": 5}, {"commit": "no commit"}])
def test_a_branch_that_makes_no_sense_is_named(lake: FolderLake, attributes: dict[str, object]) -> None:
    lake.change_item(lake.branch_key("quiet"), **attributes)
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.REF, "branch 'quiet'")


def test_a_branch_with_a_token_that_is_none_is_named(lake: FolderLake) -> None:
    lake.change_item(lake.branch_key("quiet"), open="nonsense")
    finding = one(lake.fsck())
    assert finding.kind is K.TOKEN
    assert names(finding) == {("quiet", False)}


def test_a_ref_in_the_wrong_shard_is_found(lake: FolderLake) -> None:
    key = lake.tag_key("v1")
    other = next(f"{lake.uid}/tag/{n:x}" for n in range(16) if f"{lake.uid}/tag/{n:x}" != key.partition)
    item = lake.tables.get(key)
    assert item is not None
    lake.tables.put(Key(other, key.sort), item)
    finding = one(lake.fsck())
    assert finding.kind is K.REF
    assert other in finding.why


def test_a_default_branch_that_is_gone_is_found(lake: FolderLake) -> None:
    lake.tables.delete(lake.branch_key("main"))
    report = lake.fsck()
    assert one(report).what == "branch 'main'"
    assert report.garbage.commit_items > 0


def test_what_only_the_reference_log_reaches_is_looked_at_if_asked(lake: FolderLake) -> None:
    link(lake, "quiet", {"only/here": 1})
    gone = lake.repository.commit("quiet", "will be gone")
    lake.change_item(lake.branch_key("quiet"), commit=gone.parents[0])
    key = f"_graveler/metaranges/{gone.metarange}"
    lake.path(key).unlink()
    assert lake.fsck(reflog=False).findings == ()
    finding = one(lake.fsck())
    assert (finding.kind, finding.commits) == (K.METARANGE_MISSING, (gone.id,))
    assert [(ref.kind, ref.name) for ref in finding.refs] == [("reflog", "quiet")]


def test_a_row_of_the_reference_log_whose_commit_was_collected_harms_nothing_else(lake: FolderLake) -> None:
    link(lake, "quiet", {"only/here": 1})
    gone = lake.repository.commit("quiet", "will be gone")
    lake.change_item(lake.branch_key("quiet"), commit=gone.parents[0])
    lake.tables.delete(lake.commit_key(gone.id))
    lake.path(f"_graveler/commits/{gone.id}").unlink()
    finding = one(lake.fsck())
    assert finding.kind is K.REFLOG
    assert gone.id in finding.why


def test_a_damaged_row_of_the_reference_log_is_found(lake: FolderLake) -> None:
    partition = f"{lake.uid}/reflog/branch/dev"
    sort, _ = lake.tables.query(partition, limit=2).items[1]
    lake.smash_item(Key(partition, sort))
    finding = one(lake.fsck())
    assert finding.kind is K.REFLOG
    assert sort.hex() in finding.what


# Staged changes


def staged_key(lake: FolderLake, path: bytes) -> Key:
    return Key(f"{lake.uid}/staged/{lake.item(lake.branch_key('dev'))['open']}/0", path)


@pytest.mark.parametrize("how", ["smashed", "no record", "cut"])
@pytest.mark.parametrize("path", [b"p/001", b"staged"])
def test_a_staged_change_that_cannot_be_read_is_named(lake: FolderLake, how: str, path: bytes) -> None:
    key = staged_key(lake, path)
    if how == "smashed":
        lake.smash_item(key)
    elif how == "no record":
        lake.change_item(key, record="text")
    else:
        record = lake.item(key)["record"]
        assert isinstance(record, bytes)
        lake.change_item(key, record=record[:12])
    report = lake.fsck()
    finding = one(report)
    assert (finding.kind, finding.first, finding.last) == (K.STAGED, path.decode(), path.decode())
    assert names(finding) == {("dev", False)}
    assert report.counts.staged == 4


def test_every_damaged_item_of_many_is_found_and_the_rest_is_read(lake: FolderLake) -> None:
    link(lake, "dev", {f"many/{n:04}": n for n in range(2300)})
    bad = [f"many/{n:04}" for n in (0, 1, 999, 1000, 2299)]
    for path in bad:
        lake.smash_item(staged_key(lake, path.encode()))
    report = lake.fsck()
    assert [finding.first for finding in report.findings] == bad
    assert report.counts.staged == 2304


def test_the_object_of_a_staged_change_is_looked_for(lake: FolderLake) -> None:
    entry = lake.repository.stat("dev", "staged")
    path = lake.path(entry.address.removeprefix(f"{NAMESPACE}/"))
    path.write_bytes(b"shorter")
    finding = one(lake.fsck())
    assert (finding.kind, finding.first) == (K.OBJECT_SIZE, "staged")
    assert entry.address in finding.what
    path.unlink()
    finding = one(lake.fsck())
    assert (finding.kind, finding.first) == (K.OBJECT_MISSING, "staged")
    assert names(finding) == {("dev", False)}


def test_a_staged_change_in_the_wrong_shard_is_found(lake: FolderLake) -> None:
    token = new_token(4)
    codec = RecordCodec(NAMESPACE)
    entry = ObjectEntry("some/path", f"{OUTSIDE}x", 1, "00", 0)
    lake.change_item(lake.branch_key("quiet"), open=token)
    for shard in range(4):
        lake.tables.put(Key(f"{lake.uid}/staged/{token}/{shard}", b"some/path"), {"record": codec.encode(entry)})
    assert kinds(lake.fsck()) == {K.STAGED: 3}


# Tokens and the clean-up


def test_a_sealed_token_without_an_item_is_found(lake: FolderLake) -> None:
    token = new_token()
    lake.change_item(lake.branch_key("quiet"), sealed=[token])
    finding = one(lake.fsck())
    assert finding.kind is K.TOKEN
    assert token in finding.what
    assert names(finding) == {("quiet", False)}


def test_a_live_token_that_is_said_to_be_published_is_found(lake: FolderLake) -> None:
    token = lake.item(lake.branch_key("dev"))["open"]
    lake.tables.put(Key(f"{lake.uid}/token/{token}", b"outcome"), {"state": "published", "owner": "x"})
    finding = one(lake.fsck())
    assert finding.kind is K.TOKEN
    assert "published" in finding.why


def test_a_token_of_two_branches_is_found(lake: FolderLake) -> None:
    lake.change_item(lake.branch_key("quiet"), open=lake.item(lake.branch_key("dev"))["open"])
    finding = one(lake.fsck())
    assert finding.kind is K.TOKEN
    assert "'dev'" in finding.why
    assert names(finding) == {("quiet", False)}


@pytest.mark.parametrize("item", [{"state": "nonsense", "owner": "x"}, {"owner": "x"}])
def test_an_item_of_a_token_that_cannot_be_read_is_found(lake: FolderLake, item: dict[str, str]) -> None:
    token = lake.item(lake.branch_key("dev"))["open"]
    lake.tables.put(Key(f"{lake.uid}/token/{token}", b"outcome"), item)
    assert one(lake.fsck()).kind is K.TOKEN


def test_a_live_token_in_the_clean_up_queue_is_taken_out(lake: FolderLake) -> None:
    token = str(lake.item(lake.branch_key("dev"))["open"])
    place = (5).to_bytes(8, "big") + token.encode()
    lake.tables.put(Key(f"{lake.uid}/cleanup", place), {"token": token, "sweep": 1})
    finding = one(lake.fsck())
    assert finding.kind is K.TOKEN
    assert "swept" in finding.why
    assert lake.fsck(repair=True).remaining == ()
    assert lake.fsck().findings == ()
    lake.clock.time += 10**6
    link(lake, "main", {"x": 1})
    lake.repository.commit("main", "sweeps")
    assert lake.repository.read("dev", "staged") == b"staged bytes"


@pytest.mark.parametrize("item", [{}, {"token": "other", "sweep": 1}, {"token": "t-1", "sweep": 3}])
def test_an_entry_of_the_clean_up_queue_that_makes_no_sense_is_found(lake: FolderLake, item: dict[str, str]) -> None:
    lake.tables.put(Key(f"{lake.uid}/cleanup", bytes(8) + b"t-1"), item)
    assert one(lake.fsck()).kind is K.CLEANUP
    assert lake.fsck(repair=True).remaining == ()
    assert lake.fsck().findings == ()


# Leases of hidden branches


def test_a_lease_that_belongs_to_no_hidden_branch_is_found(lake: FolderLake) -> None:
    lake.repository.create_branch("tx-alive", "main", hidden=True, owner="somebody")
    assert lake.fsck().findings == ()
    owners = Owners(lake.tables, RepositoryUID(lake.uid))
    lake.tables.transact([owners.claim_write(name, "somebody") for name in ("dev", "gone", "no name for a branch")])
    lake.tables.put(Key(owners.partition, b"says-nothing"), {})
    found = lake.fsck().findings
    assert {finding.kind for finding in found} == {K.LEASE}
    assert len(found) == 4
    assert lake.fsck(repair=True).remaining == ()
    assert lake.fsck().findings == ()
    lake.repository.renew_branch("tx-alive", "somebody")


# Uploads in parts


def test_a_record_of_an_upload_that_nobody_can_use_is_found(lake: FolderLake) -> None:
    parts = lake.repository.parts
    upload = create_upload(parts, "main", "a/b", metadata={"k": "v"})
    done = create_upload(parts, "main", "c")
    etag = parts.objects.put_part(done.key, done.store_id, 1, b"c")
    complete_upload(parts, "main", "c", done.upload_id, [(1, etag)])
    assert lake.fsck().findings == ()
    records = UploadRecords(lake.tables, RepositoryUID(lake.uid))
    item = lake.tables.get(records.key_of("main", "a/b", upload.upload_id))
    assert item is not None
    lake.tables.put(Key(records.partition, b"main\0d\0x"), item)
    lake.tables.put(Key(records.partition, b"main\0e\0x"), {"record": b"?"})
    records.add(structs.replace(upload, path="f", key="somewhere/else"))
    found = {finding.what: finding.why for finding in lake.fsck().findings}
    assert found == {
        "the upload to 'd' on branch 'main'": "belongs to 'a/b' on branch 'main', where no lookup finds it",
        "the upload to 'e' on branch 'main'": "has no readable record",
        "the upload to 'f' on branch 'main'": "names 'somewhere/else', which is no address for an object",
    }
    assert {finding.kind for finding in lake.fsck().findings} == {K.UPLOAD}
    assert lake.fsck(repair=True).remaining == ()
    assert lake.fsck().findings == ()
    assert find_upload(parts, "main", "a/b", upload.upload_id) == upload


# What applications have written


def numbered(lake: FolderLake, version: int, branch: str = "main", application: str = "stream") -> CommitID:
    """A numbered write to a branch."""
    name = f"try-{application}-{version}-{branch}"
    lake.repository.create_branch(name, branch)
    link(lake, name, {name: 1})
    lake.repository.commit(name, name)
    merged = lake.repository.merge(name, branch, application=Application(application, version), beside_uncommitted=True)
    lake.repository.delete_branch(name)
    return merged.id


def test_rows_of_applications_are_as_they_should_be_whatever_became_of_the_branch(lake: FolderLake) -> None:
    numbered(lake, 1)
    numbered(lake, 2, application="undone")
    lake.repository.undo("main")
    lake.repository.create_branch("gone", "main")
    numbered(lake, 3, "gone")
    lake.repository.delete_branch("gone")
    lake.repository.create_branch("again", "main")
    numbered(lake, 4, "again")
    lake.repository.rename_branch("again", "renamed")
    lake.repository.hard_reset("renamed", "renamed~1")
    lake.repository.create_branch("again", "main~1")
    assert lake.fsck().findings == ()
    assert lake.fsck(repair=True).findings == ()


def test_a_row_of_an_application_that_names_no_commit_of_its_branch_is_found(lake: FolderLake) -> None:
    numbered(lake, 1)
    lake.repository.create_branch("other", "main")
    elsewhere = numbered(lake, 1, "other", "elsewhere")
    partition = f"{lake.uid}/applications"

    def row(name: str, item: Item) -> Key:
        lake.tables.put(Key(partition, name.encode()), item)
        return Key(partition, name.encode())

    lost = row("main\0lost", {"version": 7, "commit": "ab" * 32})
    row("main\0foreign", {"version": 8, "commit": elsewhere})
    row("main\0odd", {"version": "9"})
    row("main\0", {"version": 9, "commit": elsewhere})
    row("no such branch\0lost", {"version": 7, "commit": "ab" * 32})
    found = {finding.what: finding for finding in lake.fsck().findings}
    assert {finding.kind for finding in found.values()} == {K.APPLICATION}
    assert {what.split("'")[1]: finding.why for what, finding in found.items()} == {
        "": "has neither a version nor a commit",
        "foreign": f"names commit {elsewhere} for version 8, which the branch never had",
        "lost": f"names commit {'ab' * 32!r} for version 7, which does not exist",
        "odd": "has neither a version nor a commit",
    }
    assert all("main" in {ref.name for ref in finding.refs} for finding in found.values())
    assert lake.repository.written_by("main", Application("lost", 7)) is None
    repaired = [finding.what.split("'")[1] for finding in lake.fsck(repair=True).findings if finding.repaired]
    assert repaired == ["lost"], "what counts for nothing may go; the others may be all that is known"
    assert lake.tables.get(lost) is None
    assert len(lake.fsck().findings) == 3
    assert lake.repository.written_by("main", Application("lost", 7)) is None


# Statuses


@pytest.mark.parametrize("attributes", [{"version": "1"}, {"statuses": b"["}, {}])
def test_damaged_statuses_are_named_and_repaired(lake: FolderLake, attributes: dict[str, object]) -> None:
    lake.repository.post_status("main", "dbt", StatusState.SUCCESS)
    lake.repository.post_status("dev", "dbt", StatusState.FAILURE)
    statuses = Statuses(lake.tables, RepositoryUID(lake.uid))
    damaged = lake.repository.commit_of("main").metarange
    if attributes:
        lake.change_item(statuses.key(damaged), **attributes)
    else:
        lake.smash_item(statuses.key(damaged))
    finding = one(lake.fsck())
    assert (finding.kind, finding.what) == (K.STATUSES, f"the statuses of tree {damaged[:16]}")
    assert one(lake.fsck(repair=True)).repaired
    assert not lake.fsck().findings
    assert [status.state for status in lake.repository.statuses("dev")] == [StatusState.FAILURE]
    lake.repository.post_status("main", "dbt", StatusState.SUCCESS)
