"""Every route against every kind of access key: exactly the intended routes are open."""

from collections.abc import Sequence

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.resources import GROUPS
from graveler.api.routing import Route, Router
from graveler.requests.base import Permission
from tests.api.support import EventClient, World, basic, make_world

PUBLIC = frozenset(
    (
        "login",
        "externalPrincipalLogin",
        "getAuthCapabilities",
        "healthCheck",
        "getSetupState",
        "setup",
        "setupCommPrefs",
    )
)
"""For anybody at all."""
READING_POSTS = frozenset(
    (
        "logout",
        "postStatsEvents",
        "previewGCRules",
        "statObjects",
        "testRules",
    )
)
"""What is not a GET and changes nothing, but for the session of who asks."""
WRITING_GETS = frozenset(
    (
        "getPhysicalAddress",
        "listUploadParts",
        "stageObjectAllowed",
    )
)
"""What only who may write asks for."""
CHECKING = frozenset(("postStatus",))
"""What a checker does."""
OF_THE_LAKE = frozenset(
    (
        "createRepository",
        "restoreSubmit",
        "listUsers",
        "createUser",
        "deleteUser",
        "createCredentials",
        "deleteCredentials",
        "listAccessKeys",
        "createAccessKey",
        "getAccessKey",
        "revokeAccessKey",
        "listPrincipalRules",
        "createPrincipalRule",
        "getPrincipalRule",
        "removePrincipalRule",
        "createUserExternalPrincipal",
        "deleteUserExternalPrincipal",
        "listUserExternalPrincipals",
        "getExternalPrincipal",
        "listDumpsInNamespace",
        "listDeletedRepositories",
        "purgeRepository",
        "getLakeRules",
        "setLakeRules",
    )
)
"""What concerns more than one repository, and is an admin's business."""
OF_A_REPOSITORY = frozenset(
    (
        "deleteRepository",
        "setRepositoryMetadata",
        "deleteRepositoryMetadata",
        "setGCRules",
        "internalSetGarbageCollectionRules",
        "deleteGCRules",
        "internalDeleteGarbageCollectionRules",
        "setBranchProtectionRules",
        "setRules",
        "createBranchProtectionRulePreflight",
        "setGarbageCollectionRulesPreflight",
        "setImportSources",
        "setReadOnly",
        "checkRepository",
        "dumpSubmit",
        "startGarbageCollection",
        "listGarbageCollectionReports",
        "getGarbageCollectionReport",
        "listGarbageCollectionFiles",
        "restoreGarbage",
        "listHolds",
        "createHold",
        "deleteHold",
        "startCheck",
        "getCheck",
        "startSpaceMeasurement",
        "getSpaceMeasurement",
        "listDumps",
        "createIngestRule",
        "setIngestRule",
        "deleteIngestRule",
        "dumpStatus",
        "restoreStatus",
    )
)
"""An admin's business in one repository."""
ALL_BRANCHES = frozenset(
    (
        "createTag",
        "deleteTag",
    )
)
"""What a key that is limited to branches may not do."""

BODIES: dict[str, object] = {
    "createBranch": {"name": "main", "source": "main"},
    "createPullRequest": {"title": "t", "source_branch": "main", "destination_branch": "dev"},
    "approvePullRequest": {"source_commit": "f" * 64},
    "commentOnPullRequest": {"text": "good"},
    "renameBranch": {"name": "main2"},
    "renewLease": {"owner": "tx"},
    "createAccessKey": {"name": "somebody"},
    "createHold": {"ref": "main"},
    "postStatus": {"name": "dbt", "state": "success"},
    "runChecks": {"ref": "main", "branch": "main"},
    "importListing": {"path": "x", "physical_address": "x"},
    "importListingDryRun": {"path": "x", "physical_address": "x"},
    "restoreSubmit": {"commits_meta_range_id": "x", "tags_meta_range_id": "x", "branches_meta_range_id": "x"},
    "replayIngest": {"messages": []},
    "startReconciliation": {"rule": "r"},
    "createRepository": {"name": "repo", "storage_namespace": "local://x"},
}
VALUES = {"repository": "repo", "branch": "main", "destination": "main", "user": "somebody else"}

ROUTES = [route for route in Router(GROUPS).routes if route.tag != "not implemented" or route.method == "GET"]


def needs(route: Route) -> Permission | None:
    """What this test demands, whatever the route says."""
    if route.operation in PUBLIC:
        return None
    if route.operation in OF_THE_LAKE | OF_A_REPOSITORY:
        return Permission.ADMIN
    if route.tag == "not implemented" or route.operation in READING_POSTS:
        return Permission.READ
    if route.operation in CHECKING:
        return Permission.CHECK
    if route.operation in WRITING_GETS or route.method not in ("GET", "HEAD"):
        return Permission.WRITE
    return Permission.READ


@pytest.fixture(scope="module")
def world() -> World:
    made = make_world()
    made.lake.create_repository(
        "repo", "local://repo", read_only=True
    )  # what is permitted is refused for another reason
    return made


def allowed(
    world: World, route: Route, role: Role, repositories: Sequence[str] = (), branches: Sequence[str] = ()
) -> bool:
    """Whether a key gets past the check of permissions."""
    key = world.access.create_key("who", role, repositories, branches, ["dbt"] if role is Role.CHECKER else ())
    path = "/".join(VALUES.get(part[1:-1], "x") if part[:1] == "{" else part for part in route.template.split("/"))
    answer = EventClient(world)(
        route.method, path, {"path": "x"}, BODIES.get(route.operation, {}), authorization=basic(key)
    )
    world.access.revoke(key.key.key_id)
    refused = answer.status == 401
    assert not refused or route.method == "HEAD" or answer.message.startswith("insufficient permissions"), answer
    return not refused


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_each_route_is_for_whom_it_is_meant(world: World, route: Route) -> None:
    needed = needs(route)
    assert route.permission is needed
    client = EventClient(make_world())  # failures are counted, and after some there is another answer
    path = "/".join(VALUES.get(part[1:-1], "x") if part[:1] == "{" else part for part in route.template.split("/"))
    for nobody in (None, "Basic eDp5", "Bearer x.y.z", "x"):
        answer = client(route.method, path, authorization=nobody)
        assert (answer.status == 401) == (needed is not None) or route.operation == "login", answer
    if needed is None:
        return
    others = route.operation in (
        "getUser",
        "listUserCredentials",
        "getCredentials",
    )  # of somebody else: an admin's business
    reader, writer = needed is Permission.READ and not others, needed is not Permission.ADMIN and not others
    assert allowed(world, route, Role.READER) == reader
    assert allowed(world, route, Role.CHECKER) == (reader or needed is Permission.CHECK)
    assert allowed(world, route, Role.WRITER) == writer
    if route.operation != "deleteRepository":
        assert allowed(world, route, Role.ADMIN)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_limited_key_stays_within_its_limits(world: World, route: Route) -> None:
    needed = needs(route)
    if needed is None or route.operation in ("deleteRepository", "getUser", "listUserCredentials", "getCredentials"):
        return
    somewhere = "{repository}" in route.template
    reading = needed is Permission.READ
    of_branches = needed not in (Permission.READ, Permission.CHECK)
    elsewhere = allowed(world, route, Role.ADMIN, ["other", "repo?"])
    assert elsewhere == (not somewhere and reading)
    assert allowed(world, route, Role.ADMIN, ["re*"]) == (route.operation not in OF_THE_LAKE)
    on_branch = "{branch}" in route.template or "{destination}" in route.template
    on_branch = on_branch or route.operation in ("createBranch", "createPullRequest", "runChecks")
    assert allowed(world, route, Role.ADMIN, (), ["dev", "ma"]) == (not of_branches)
    assert allowed(world, route, Role.ADMIN, (), ["ma*"]) == (not of_branches or on_branch)


def test_a_limited_key_sees_its_own_repositories_only() -> None:
    world = make_world()
    for name in ("one", "two", "three"):
        world.lake.create_repository(name, f"local://{name}")
    key = basic(world.access.create_key("who", Role.READER, ["t*"]))
    client = EventClient(world)
    assert [found["id"] for found in client("GET", "/repositories", authorization=key).json()["results"]] == [
        "three",
        "two",
    ]
    page = client("GET", "/repositories", {"amount": "1"}, authorization=key).json()
    assert (page["pagination"]["has_more"], page["pagination"]["next_offset"]) == (True, "three")
    # What it may not see looks the same whether it is there or not.
    hidden, missing = (client("GET", f"/repositories/{name}", authorization=key) for name in ("one", "none"))
    assert hidden.status == missing.status == 401
    assert hidden.message.replace("one", "") == missing.message.replace("none", "")


def test_an_import_is_cancelled_and_looked_at_on_its_branch_only() -> None:
    world = make_world()
    world.lake.create_repository("repo", "local://repo").create_branch("dev", "main")
    client = EventClient(world)
    branches = "/repositories/repo/branches"
    asked = {"id": client("POST", f"{branches}/main/import", (), {"paths": []}).json()["id"]}
    for method in ("GET", "DELETE"):
        assert client(method, f"{branches}/dev/import", asked).status == 404
    dump = {"id": client("POST", "/repositories/repo/dump").json()["id"]}
    for method in ("GET", "DELETE"):
        assert client(method, f"{branches}/main/import", dump).status == 404
    assert client("GET", f"{branches}/main/import", asked).status == 200


def test_secrets_are_in_no_answer_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    access: Access = world.access
    key = access.create_key("who", Role.ADMIN)
    client = EventClient(world)
    with caplog.at_level("DEBUG"):
        login = {"access_key_id": key.key.key_id, "secret_access_key": key.secret}
        token = client("POST", "/auth/login", (), login).json()["token"]
        client("POST", "/auth/login", (), {**login, "secret_access_key": "wrong" + key.secret})
        for path in ("/user", "/auth/users", "/auth/users/who/credentials", "/nothing"):
            for authorization in (basic(key), f"Bearer {token}", f"Bearer {token}x"):
                assert key.secret not in client("GET", path, authorization=authorization).text
    assert key.secret not in caplog.text
    assert token not in caplog.text
