"""The rest of lakeFS's API: unimplemented operations respond with a 501 and an Error body, as clients expect; never with a 404.

Groups and policies: an access key has one role instead. Garbage collection by Spark reads its own formats. Hooks need a server of
their own.
"""

from typing import Final

from msgspec import Struct

from graveler.api.call import Call
from graveler.api.errors import NOT_IMPLEMENTED, ApiError
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.requests.base import Permission
from graveler.wire.documents import Pagination
from graveler.wire.error_documents import Error

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
)
"""Method, path and operation of everything unimplemented. Declarations in other modules take precedence."""


_KEYS: Final = (
    "an access key has a role instead, and may be limited to repositories and branches; "
    "create one with `graveler keys create NAME --role writer --repository REPOSITORY`"
)
_GARBAGE: Final = "graveler collects garbage itself: `graveler gc run`, or POST /repositories/{repository}/gc/runs"
_METADATA: Final = "graveler's metadata files have a format of their own; read objects by listing them"

_INSTEAD: Final = (
    ("/auth/groups", f"there are no groups: {_KEYS}"),
    ("/auth/users/{user}/groups", f"there are no groups: {_KEYS}"),
    ("/auth/", f"there are no policies: {_KEYS}"),
    ("/sts/", "log in with an access key, or as an AWS principal that `graveler principals` lets in"),
    ("/oidc/", "log in with an access key, or as an AWS principal that `graveler principals` lets in"),
    ("/repositories/{repository}/refs/", "use `graveler dump` and `graveler restore`"),
    ("/repositories/{repository}/commits", "use `graveler restore`, which brings commits back from a dump"),
    ("/repositories/{repository}/branch_protection", "use /repositories/{repository}/settings/branch_protection"),
    ("/repositories/{repository}/gc/", _GARBAGE),
    ("/repositories/{repository}/metadata/", _METADATA),
)
"""What to use instead, by the beginning of the path; the first that fits counts."""


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
    instead = next(sentence for beginning, sentence in _INSTEAD if template.startswith(beginning))

    def refuse(call: Call, **_: str) -> Response:
        """Not implemented."""
        raise ApiError(501, f"{NOT_IMPLEMENTED}: {call.operation}; {instead}")

    routes.route(method, template, operation, Permission.READ, responses={501: Error})(refuse)


for _operation in OPERATIONS:
    _declare(*_operation)
