"""The rest of lakeFS's API: unimplemented operations respond with a 501 and an Error body, as clients expect; never with a 404.

Groups and policies: an access key has one role instead. Garbage collection by Spark reads its own formats. Pull requests and
hooks need a server of their own.
"""

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.errors import NOT_IMPLEMENTED, ApiError
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.requests.base import Permission
from graveler.wire.documents import Pagination
from graveler.wire.errors import Error

routes = Routes("not implemented")

OPERATIONS = (
    ("POST", "/sts/login", "stsLogin"),
    ("GET", "/oidc/callback", "oauthCallback"),
    ("GET", "/auth/users/{user}/groups", "listUserGroups"),
    ("GET", "/auth/users/{user}/policies", "listUserPolicies"),
    ("PUT", "/auth/users/{user}/policies/{policy}", "attachPolicyToUser"),
    ("DELETE", "/auth/users/{user}/policies/{policy}", "detachPolicyFromUser"),
    ("GET", "/auth/groups", "listGroups"),
    ("POST", "/auth/groups", "createGroup"),
    ("GET", "/auth/groups/{group}", "getGroup"),
    ("DELETE", "/auth/groups/{group}", "deleteGroup"),
    ("GET", "/auth/groups/{group}/members", "listGroupMembers"),
    ("PUT", "/auth/groups/{group}/members/{user}", "addGroupMembership"),
    ("DELETE", "/auth/groups/{group}/members/{user}", "deleteGroupMembership"),
    ("GET", "/auth/groups/{group}/policies", "listGroupPolicies"),
    ("PUT", "/auth/groups/{group}/policies/{policy}", "attachPolicyToGroup"),
    ("DELETE", "/auth/groups/{group}/policies/{policy}", "detachPolicyFromGroup"),
    ("GET", "/auth/groups/{group}/acl", "getGroupACL"),
    ("POST", "/auth/groups/{group}/acl", "setGroupACL"),
    ("GET", "/auth/policies", "listPolicies"),
    ("POST", "/auth/policies", "createPolicy"),
    ("GET", "/auth/policies/{policy}", "getPolicy"),
    ("PUT", "/auth/policies/{policy}", "updatePolicy"),
    ("DELETE", "/auth/policies/{policy}", "deletePolicy"),
    ("PUT", "/repositories/{repository}/refs/dump", "dumpRefs"),
    ("PUT", "/repositories/{repository}/refs/restore", "restoreRefs"),
    ("POST", "/repositories/{repository}/commits", "CreateCommitRecord"),
    ("POST", "/repositories/{repository}/branch_protection", "internalCreateBranchProtectionRule"),
    ("DELETE", "/repositories/{repository}/branch_protection", "internalDeleteBranchProtectionRule"),
    ("POST", "/repositories/{repository}/gc/prepare_commits", "prepareGarbageCollectionCommits"),
    ("POST", "/repositories/{repository}/gc/prepare_commits/async", "prepareGarbageCollectionCommitsAsync"),
    ("GET", "/repositories/{repository}/gc/prepare_commits/status", "prepareGarbageCollectionCommitsStatus"),
    ("POST", "/repositories/{repository}/gc/prepare_uncommited", "prepareGarbageCollectionUncommitted"),
    ("GET", "/repositories/{repository}/metadata/object/{type}/{id}", "getMetadataObject"),
    ("GET", "/repositories/{repository}/metadata/meta_range/{id}", "getMetaRange"),
    ("GET", "/repositories/{repository}/metadata/range/{id}", "getRange"),
    ("GET", "/repositories/{repository}/pulls", "listPullRequests"),
    ("POST", "/repositories/{repository}/pulls", "createPullRequest"),
    ("GET", "/repositories/{repository}/pulls/{pull}", "getPullRequest"),
    ("PATCH", "/repositories/{repository}/pulls/{pull}", "updatePullRequest"),
    ("PUT", "/repositories/{repository}/pulls/{pull}/merge", "mergePullRequest"),
)
"""Method, path and operation of everything unimplemented. Declarations in other modules take precedence."""


class RunList(Struct, frozen=True):
    """An empty list: this server runs no hooks."""

    pagination: Pagination
    results: list[str]


@routes.get(
    "/repositories/{repository}/actions/runs",
    "listRepositoryRuns",
    Permission.READ,
    responses={200: RunList, 404: Error},
)
def list_runs(call: Call, repository: str) -> Response:
    """List the runs of hooks, of which there are none."""
    call.lake.repository(repository)
    return json_response(RunList(Pagination(False, "", 0), []))


@routes.get(
    "/repositories/{repository}/actions/runs/{run}/hooks/{hook}/output",
    "getRunHookOutput",
    Permission.READ,
    responses={404: Error},
)
@routes.get(
    "/repositories/{repository}/actions/runs/{run}/hooks", "listRunHooks", Permission.READ, responses={404: Error}
)
@routes.get("/repositories/{repository}/actions/runs/{run}", "getRun", Permission.READ, responses={404: Error})
def get_run(call: Call, repository: str, run: str, hook: str = "") -> Response:
    """Describe a run of a hook; there are none."""
    call.lake.repository(repository)
    raise ApiError(404, f"not found: there is no run {run!r}" + (f" of hook {hook!r}" if hook else ""))


def _declare(method: str, template: str, operation: str) -> None:
    def refuse(call: Call, **_: str) -> Response:
        """Not implemented."""
        raise ApiError(501, f"{NOT_IMPLEMENTED}: {call.operation}")

    routes.route(method, template, operation, Permission.READ, responses={501: Error})(refuse)


for _operation in OPERATIONS:
    _declare(*_operation)
