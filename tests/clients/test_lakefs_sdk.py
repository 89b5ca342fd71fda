"""The parts of the published package ``lakefs-sdk`` that ``lakefs`` does not reach. Its models check the types of every
answer."""

import json
from hashlib import md5
from typing import Any

import lakefs
import pytest
from lakefs.client import Client
from lakefs_sdk.exceptions import ApiException
from lakefs_sdk.models import (
    AbortPresignMultipartUpload,
    BranchProtectionRule,
    CommitCreation,
    CompletePresignMultipartUpload,
    GarbageCollectionRule,
    GarbageCollectionRules,
    LoginInformation,
    ObjectCopyCreation,
    ObjectStageCreation,
    PathList,
    RepositoryCreation,
    StagingLocation,
    StagingMetadata,
    StatsEvent,
    StatsEventsList,
    UpdateObjectUserMetadata,
    UploadPart,
    UploadPartFrom,
)

from tests.clients.support import Served, Wire, new_name

PART = 5 << 20


@pytest.fixture
def sdk(client: Client) -> Any:
    return client.sdk_client


def status_of(error: "pytest.ExceptionInfo[ApiException]") -> int:
    """The status, of an error that has a JSON body with a message."""
    assert error.value.body is not None
    assert json.loads(error.value.body)["message"]
    assert error.value.status is not None
    return int(error.value.status)


# Staging


def test_an_object_is_staged_where_its_bytes_were_written(sdk: Any, main: lakefs.Branch, wire: Wire) -> None:
    where = sdk.staging_api.get_physical_address(main.repo_id, "main", "o", presign=True)
    assert where.physical_address.startswith(f"local://{main.repo_id}/data/")
    assert where.presigned_url_expiry > 0
    # Clients add headers that nobody signed.
    headers = {"Content-Type": "application/octet-stream", "x-ms-blob-type": "BlockBlob"}
    put = wire.plain("PUT", where.presigned_url, b"bytes", headers).expect(200)
    etag = md5(b"bytes").hexdigest()
    assert put.headers["ETag"] == f'"{etag}"'
    linked = sdk.staging_api.link_physical_address(
        main.repo_id,
        "main",
        "o",
        StagingMetadata(
            staging=StagingLocation(physical_address=where.physical_address),
            checksum=put.headers["ETag"],
            size_bytes=5,
            user_metadata={"k": "v"},
            content_type="text/x-o",
            mtime=1_000_000_000,
        ),
    )
    assert (linked.checksum, linked.mtime, linked.content_type) == (etag, 1_000_000_000, "text/x-o")
    assert linked.metadata == {"k": "v"}
    assert sdk.objects_api.get_object(main.repo_id, "main", "o") == b"bytes"


def test_without_presign_there_is_an_address_only(sdk: Any, main: lakefs.Branch) -> None:
    where = sdk.staging_api.get_physical_address(main.repo_id, "main", "o")
    assert where.physical_address
    assert where.presigned_url is None


@pytest.mark.parametrize("wrong", ["path", "address", "outside", "checksum", "size"])
def test_what_cannot_be_linked_is_refused(sdk: Any, main: lakefs.Branch, wire: Wire, wrong: str) -> None:
    where = sdk.staging_api.get_physical_address(main.repo_id, "main", "o", presign=True)
    wire.plain("PUT", where.presigned_url, b"bytes").expect(200)
    address, path, checksum, size = where.physical_address, "o", md5(b"bytes").hexdigest(), 5
    match wrong:
        case "path":
            path = "other"
        case "address":
            address = address[:-1] + ("0" if address[-1] != "0" else "1")
        case "outside":
            address = f"local://{main.repo_id}-other/data/x/y"
        case "checksum":
            checksum = ""
        case "size":
            size = -1
    staging = StagingMetadata(staging=StagingLocation(physical_address=address), checksum=checksum, size_bytes=size)
    with pytest.raises(ApiException) as caught:
        sdk.staging_api.link_physical_address(main.repo_id, "main", path, staging)
    assert status_of(caught) == (403 if wrong == "outside" else 400)
    assert not main.object("o").exists()


def test_nothing_is_linked_on_a_branch_that_is_gone(sdk: Any, repo: lakefs.Repository, wire: Wire) -> None:
    repo.branch("short").create("main")
    where = sdk.staging_api.get_physical_address(repo.id, "short", "o", presign=True)
    wire.plain("PUT", where.presigned_url, b"bytes").expect(200)
    repo.branch("short").delete()
    staging = StagingMetadata(staging=where, checksum=md5(b"bytes").hexdigest(), size_bytes=5)
    with pytest.raises(ApiException) as caught:
        sdk.staging_api.link_physical_address(repo.id, "short", "o", staging)
    assert status_of(caught) == 404


def test_a_link_under_a_condition_finds_what_is_there(sdk: Any, main: lakefs.Branch, wire: Wire) -> None:
    for number, expected in enumerate((200, 412)):
        where = sdk.staging_api.get_physical_address(main.repo_id, "main", "o", presign=True)
        data = str(number).encode()
        wire.plain("PUT", where.presigned_url, data).expect(200)
        staging = StagingMetadata(staging=where, checksum=md5(data).hexdigest(), size_bytes=len(data))
        if expected == 200:
            sdk.staging_api.link_physical_address(main.repo_id, "main", "o", staging, if_none_match="*")
            continue
        with pytest.raises(ApiException) as caught:
            sdk.staging_api.link_physical_address(main.repo_id, "main", "o", staging, if_none_match="*")
        assert status_of(caught) == 412
        with pytest.raises(ApiException) as caught:
            sdk.staging_api.link_physical_address(main.repo_id, "main", "o", staging, if_none_match='"etag"')
        assert status_of(caught) == 501


@pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")  # what lakectl fs stage sends
def test_objects_elsewhere_are_staged_as_they_are(
    sdk: Any, main: lakefs.Branch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "there"
    file.write_bytes(b"bytes")
    creation = ObjectStageCreation(
        physical_address=f"file://{file}",
        checksum="abc",
        size_bytes=5,
        mtime=7,
        metadata={"k": "v"},
        content_type="t/t",
    )
    staged = sdk.internal_api.stage_object(main.repo_id, "main", "o", creation)
    assert (staged.checksum, staged.mtime, staged.content_type) == ("abc", 7, "t/t")
    assert main.object("o").reader().read() == b"bytes"


# Uploads in parts


def test_an_upload_in_parts_becomes_an_object(sdk: Any, main: lakefs.Branch, wire: Wire) -> None:
    experimental = sdk.experimental_api
    begun = experimental.create_presign_multipart_upload(main.repo_id, "main", "big", parts=2)
    assert len(begun.presigned_urls) == 2
    data = [b"a" * PART, b"b" * 1000, b"c" * 10]
    urls = list(begun.presigned_urls)
    urls.append(
        experimental.upload_part(
            main.repo_id,
            "main",
            begun.upload_id,
            "big",
            3,
            UploadPartFrom(physical_address=begun.physical_address),
        ).presigned_url
    )
    # Only the last part may be small: S3 has the same rule.
    sent = [data[0], b"b" * PART, data[2]]
    etags = [wire.plain("PUT", url, part).expect(200).headers["ETag"] for url, part in zip(urls, sent, strict=True)]
    done = experimental.complete_presign_multipart_upload(
        main.repo_id,
        "main",
        begun.upload_id,
        "big",
        complete_presign_multipart_upload=CompletePresignMultipartUpload(
            physical_address=begun.physical_address,
            parts=[UploadPart(part_number=number, etag=etag) for number, etag in enumerate(etags, 1)],
            user_metadata={"k": "v"},
            content_type="video/x",
        ),
    )
    assert (done.size_bytes, done.content_type, done.metadata) == (2 * PART + 10, "video/x", {"k": "v"})
    assert done.checksum
    assert main.object("big").reader().read() == b"".join(sent)
    assert main.object("big").reader(pre_sign=False).read() == b"".join(sent)


def test_an_upload_that_is_aborted_leaves_nothing(sdk: Any, main: lakefs.Branch, wire: Wire) -> None:
    experimental = sdk.experimental_api
    begun = experimental.create_presign_multipart_upload(main.repo_id, "main", "big")
    assert not begun.presigned_urls
    where = AbortPresignMultipartUpload(physical_address=begun.physical_address)
    experimental.abort_presign_multipart_upload(main.repo_id, "main", begun.upload_id, "big", where)
    with pytest.raises(ApiException) as caught:
        experimental.complete_presign_multipart_upload(
            main.repo_id,
            "main",
            begun.upload_id,
            "big",
            complete_presign_multipart_upload=CompletePresignMultipartUpload(
                physical_address=begun.physical_address, parts=[UploadPart(part_number=1, etag="e")]
            ),
        )
    assert status_of(caught) in (400, 404)
    assert not main.object("big").exists()
    with pytest.raises(ApiException) as caught:
        experimental.create_presign_multipart_upload(main.repo_id, "nowhere", "big", parts=1)
    assert status_of(caught) == 404
    # Paths are neither cleaned nor redirected.
    assert wire("POST", "/repositories//branches/main/staging/pmpu", {"path": "p"}).expect(400).json()["message"]
    target = f"/repositories/{main.repo_id}/branches/main/staging/pmpu/"
    assert wire("PUT", target, {"path": "p"}, {}).expect(404).json()["message"]


# Objects


def test_an_object_is_read_by_redirect_or_through_the_server(sdk: Any, main: lakefs.Branch) -> None:
    main.object("o").upload(b"0123456789", content_type="text/plain", metadata={"k": "v"})
    objects = sdk.objects_api
    for presign in (True, False):
        assert objects.get_object(main.repo_id, "main", "o", presign=presign) == b"0123456789"
        part = objects.get_object_with_http_info(main.repo_id, "main", "o", range="bytes=2-4", presign=presign)
        assert (part.status_code, part.raw_data) == (206, b"234")
        assert part.headers["Content-Range"] == "bytes 2-4/10"
        with pytest.raises(ApiException) as caught:
            objects.get_object(main.repo_id, "main", "o", range="bytes=10-", presign=presign)
        assert caught.value.status == 416
        assert caught.value.headers is not None
        assert caught.value.headers["Content-Range"] == "bytes */10"
    head = objects.head_object_with_http_info(main.repo_id, "main", "o")
    assert head.headers["Content-Length"] == "10"
    assert head.headers["ETag"] == f'"{md5(b"0123456789").hexdigest()}"'
    assert head.headers["Content-Type"].startswith("text/plain")
    assert head.headers["Last-Modified"].endswith("GMT")
    with pytest.raises(ApiException) as caught:
        objects.get_object(main.repo_id, "main", "o", if_none_match=head.headers["ETag"])
    assert caught.value.status == 304
    assert objects.get_underlying_properties(main.repo_id, "main", "o").storage_class is None


def test_what_is_known_of_an_object_is_told_as_asked(sdk: Any, main: lakefs.Branch) -> None:
    main.object("o").upload(b"0", metadata={"k": "v"})
    objects = sdk.objects_api
    assert objects.stat_object(main.repo_id, "main", "o", user_metadata=False).metadata is None
    assert objects.stat_object(main.repo_id, "main", "o", user_metadata=True).metadata == {"k": "v"}
    signed = objects.list_objects(main.repo_id, "main", presign=True).results[0]
    assert signed.physical_address.startswith("http")
    assert signed.physical_address_expiry > 0
    listed = objects.list_objects(main.repo_id, "main", after="", prefix="", delimiter="", amount=-1)
    assert [item.path for item in listed.results] == ["o"]
    assert (listed.pagination.max_per_page, listed.pagination.results, listed.pagination.next_offset) == (1000, 1, "")


def test_user_metadata_is_replaced(sdk: Any, main: lakefs.Branch) -> None:
    main.object("o").upload(b"0", metadata={"old": "1"})
    sdk.experimental_api.update_object_user_metadata(
        main.repo_id, "main", "o", UpdateObjectUserMetadata(set={"new": "2"})
    )
    assert main.object("o").stat().metadata == {"new": "2"}


@pytest.mark.parametrize("shallow", [True, False])
def test_a_shallow_copy_shares_the_bytes_and_another_has_its_own(sdk: Any, main: lakefs.Branch, shallow: bool) -> None:
    source = main.object("o").upload(b"0").stat()
    copied = sdk.objects_api.copy_object(
        main.repo_id, "main", "to", ObjectCopyCreation(src_path="o", src_ref="main", shallow=shallow)
    )
    assert (copied.physical_address == source.physical_address) is shallow
    assert main.object("to").reader(mode="rb").read() == b"0"


def test_what_cannot_be_deleted_is_reported_by_path(sdk: Any, main: lakefs.Branch) -> None:
    main.object("o").upload(b"0")
    said = sdk.objects_api.delete_objects(main.repo_id, "main", PathList(paths=["o", "x" * 2000]))
    assert [(error.status_code, error.path) for error in said.errors] == [(400, "x" * 2000)]
    assert not main.object("o").exists()


# Branches


def test_a_hard_reset_gives_the_same_commit_again(sdk: Any, main: lakefs.Branch) -> None:
    main.object("o").upload(b"0")
    main.commit("first", metadata={"k": "v"})
    before = sdk.commits_api.get_commit(main.repo_id, "main").to_dict()
    main.object("o").upload(b"1")
    main.commit("second")
    sdk.experimental_api.hard_reset_branch(main.repo_id, "main", "main~1")
    assert sdk.commits_api.get_commit(main.repo_id, "main").to_dict() == before
    main.object("o").upload(b"2")
    with pytest.raises(ApiException) as caught:
        sdk.experimental_api.hard_reset_branch(main.repo_id, "main", "main~1")
    assert status_of(caught) == 400


def test_a_protected_branch_is_written_by_merges_only(sdk: Any, main: lakefs.Branch) -> None:
    settings = sdk.repositories_api
    assert settings.get_branch_protection_rules(main.repo_id) == []
    settings.set_branch_protection_rules(main.repo_id, [BranchProtectionRule(pattern="ma*")])
    assert [rule.pattern for rule in settings.get_branch_protection_rules(main.repo_id)] == ["ma*"]
    with pytest.raises(lakefs.exceptions.ForbiddenException):
        main.object("o").upload(b"0", pre_sign=False)
    with pytest.raises(lakefs.exceptions.ForbiddenException):
        main.commit("c", allow_empty=True)
    stale = settings.get_branch_protection_rules_with_http_info(main.repo_id).headers["ETag"]
    settings.set_branch_protection_rules(main.repo_id, [], if_match=stale)
    with pytest.raises(ApiException) as caught:
        settings.set_branch_protection_rules(main.repo_id, [], if_match=stale)
    assert status_of(caught) == 412
    sdk.internal_api.create_branch_protection_rule_preflight(main.repo_id)


def test_retention_rules_are_kept(sdk: Any, main: lakefs.Branch) -> None:
    rules = GarbageCollectionRules(
        default_retention_days=7, branches=[GarbageCollectionRule(branch_id="main", retention_days=14)]
    )
    sdk.repositories_api.set_gc_rules(main.repo_id, rules)
    assert sdk.repositories_api.get_gc_rules(main.repo_id).to_dict() == rules.to_dict()
    sdk.internal_api.set_garbage_collection_rules_preflight(main.repo_id)
    sdk.repositories_api.delete_gc_rules(main.repo_id)
    with pytest.raises(ApiException) as caught:
        sdk.repositories_api.get_gc_rules(main.repo_id)
    assert status_of(caught) == 404


def test_refs_are_dumped_while_others_wait(sdk: Any, main: lakefs.Branch) -> None:
    task = sdk.repositories_api.dump_submit(main.repo_id).id
    status = sdk.repositories_api.dump_status(main.repo_id, task)
    while not status.done:
        status = sdk.repositories_api.dump_status(main.repo_id, task)
    assert status.error is None
    assert status.refs.commits_meta_range_id
    assert status.refs.branches_meta_range_id


def test_a_read_only_repository_is_not_changed(sdk: Any) -> None:
    name = new_name()
    sdk.repositories_api.create_repository(
        RepositoryCreation(name=name, storage_namespace=f"local://{name}", read_only=True)
    )
    assert sdk.repositories_api.get_repository(name).read_only
    with pytest.raises(ApiException) as caught:
        sdk.commits_api.commit(name, "main", CommitCreation(message="m", allow_empty=True))
    assert status_of(caught) == 403


# Who asks, and the server


def test_a_login_gives_a_token_that_opens_the_api(sdk: Any, served: Served) -> None:
    assert sdk.auth_api.get_current_user().user.id
    login = LoginInformation(access_key_id=served.key_id, secret_access_key=served.secret)
    token = sdk.auth_api.login(login)
    assert token.token_expiration > 0
    by_token = Client(host=served.url, access_token=token.token)
    assert by_token.sdk_client.auth_api.get_current_user().user.id == sdk.auth_api.get_current_user().user.id
    forged = Client(host=served.url, access_token=token.token[:-2] + "xx")
    with pytest.raises(ApiException) as caught:
        forged.sdk_client.auth_api.get_current_user()
    assert status_of(caught) == 401
    with pytest.raises(ApiException) as caught:
        sdk.auth_api.login(LoginInformation(access_key_id=served.key_id, secret_access_key="wrong" * 8))
    assert status_of(caught) == 401


@pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")  # older clients ask so
def test_the_server_describes_itself(sdk: Any) -> None:
    config = sdk.config_api.get_config()
    assert config.version_config.version_context == "lakeFS"
    assert config.storage_config.pre_sign_multipart_upload
    assert config.storage_config_list == []
    assert config.storage_config.default_namespace_prefix
    sdk.health_check_api.health_check()
    assert sdk.internal_api.get_setup_state().state == "initialized"
    assert sdk.internal_api.get_lake_fs_version().version == config.version_config.version
    assert sdk.internal_api.get_storage_config().blockstore_type == config.storage_config.blockstore_type
    assert sdk.internal_api.get_garbage_collection_config().grace_period > 0
    sdk.auth_api.get_current_user()
    sdk.internal_api.get_usage_report_summary()
    sdk.internal_api.post_stats_events(StatsEventsList(events=[StatsEvent(var_class="c", name="n", count=1)]))


def test_there_are_no_actions(sdk: Any, main: lakefs.Branch) -> None:
    assert sdk.actions_api.list_repository_runs(main.repo_id).results == []


@pytest.mark.parametrize(
    ("api", "operation", "arguments"),
    [
        ("internal_api", "dump_refs", ["{repo}"]),
        ("auth_api", "list_groups", []),
        ("auth_api", "list_policies", []),
        ("metadata_api", "get_meta_range", ["{repo}", "0" * 64]),
        ("internal_api", "prepare_garbage_collection_commits", ["{repo}"]),
    ],
)
def test_what_is_not_implemented_says_so(
    sdk: Any, main: lakefs.Branch, api: str, operation: str, arguments: list[str]
) -> None:
    with pytest.raises(ApiException) as caught:
        getattr(getattr(sdk, api), operation)(*(argument.format(repo=main.repo_id) for argument in arguments))
    assert status_of(caught) == 501
