"""Which function answers which operation of the API: the one place that says so.

Paths and methods come from docs/openapi.json, which is made from the API's routes. An HTTP API decodes a path before it looks for
its route, so a slash in a name hides it. For such paths each method has a fallback (docs/design/0015-refs-in-addresses.md). What
is not implemented has no route of its own: a fallback, or the catch-all, takes it to a function that answers 501, and 404 or 405
for all that is no operation.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Verb = Literal["read", "write", "commit", "merge", "diff"]

DOCUMENT: Final = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"
BASE: Final = "/api/v1"
CATCH_ALL: Final[Verb] = "read"
JOINED: Final = frozenset(("commit_id", "left", "ref", "right", "source", "tag", "user"))
"""As graveler.api.routing.JOINED: parameters whose values may hold a slash."""
FALLBACK_PATH: Final = f"{BASE}/{{proxy+}}"
FALLBACKS: Final[dict[str, Verb]] = {
    "GET": "read",
    "HEAD": "read",
    "POST": "write",
    "PUT": "write",
    "PATCH": "write",
    "DELETE": "write",
}
"""The function of each method for paths below BASE that no route of an operation matches."""
METHODS: Final = tuple(method.lower() for method in FALLBACKS)
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NOT_IMPLEMENTED: Final = "not implemented"

_OPERATIONS: Final[tuple[tuple[Verb, str], ...]] = (
    (
        "read",
        (
            "listRepositories getRepository getRepositoryMetadata getGCRules internalGetGarbageCollectionRules "
            "getBranchProtectionRules internalGetBranchProtectionRules setGarbageCollectionRulesPreflight "
            "createBranchProtectionRulePreflight listBranches getBranch listTags getTag getCommit logCommits findMergeBase "
            "getObject headObject statObject statObjects listObjects getUnderlyingProperties "
            "stageObjectAllowed importStatus listOperations getOperation getImportSources dumpStatus "
            "listIngestRules getIngestRule getIngestStatus getReconciliation "
            "restoreStatus getGarbageCollection "
            "getAuthCapabilities getCurrentUser listUsers getUser listUserCredentials getCredentials getConfig "
            "getLakeFSVersion getStorageConfig getGarbageCollectionConfig healthCheck postStatsEvents getUsageReportSummary "
            "getSetupState setupCommPrefs getReflog getWrittenVersion listAccessKeys getAccessKey listDumps listDumpsInNamespace "
            "listGarbageCollectionReports getGarbageCollectionReport listGarbageCollectionFiles listHolds "
            "listDeletedRepositories getCheck getSpaceMeasurement previewGCRules "
            "listPrincipalRules getPrincipalRule getExternalPrincipal listUserExternalPrincipals"
        ),
    ),
    (
        "write",
        (
            "createRepository deleteRepository setRepositoryMetadata deleteRepositoryMetadata setGCRules "
            "internalSetGarbageCollectionRules deleteGCRules internalDeleteGarbageCollectionRules setBranchProtectionRules "
            "createBranch deleteBranch resetBranch hardResetBranch undoBranch createTag deleteTag uploadObject stageObject "
            "deleteObject deleteObjects copyObject updateObjectUserMetadata getPhysicalAddress linkPhysicalAddress "
            "linkPhysicalAddresses createPresignMultipartUpload completePresignMultipartUpload abortPresignMultipartUpload "
            "uploadPart uploadPartCopy importStart importCancel login logout createUser deleteUser createCredentials "
            "deleteCredentials setup setImportSources dumpSubmit startGarbageCollection cancelOperation setReadOnly renameBranch "
            "createIngestRule setIngestRule deleteIngestRule startReconciliation "
            "createAccessKey revokeAccessKey restoreGarbage createHold deleteHold purgeRepository startCheck "
            "startSpaceMeasurement importListing importDryRun importListingDryRun renewLease releaseLease "
            "externalPrincipalLogin createPrincipalRule removePrincipalRule createUserExternalPrincipal "
            "deleteUserExternalPrincipal"
        ),
    ),
    ("commit", "commit restoreSubmit replayIngest"),
    ("merge", "mergeIntoBranch revertBranch cherryPick rewriteBranch"),
    (
        "diff",
        (
            "diffRefs diffBranch diffRefsSummary diffBranchSummary previewMerge getUsage blameObject annotateObjects "
            "checkRepository"
        ),
    ),
)

FUNCTION_OF: Final[dict[str, Verb]] = {
    operation: verb for verb, operations in _OPERATIONS for operation in operations.split()
}


@dataclass(frozen=True)
class ApiRoute:
    """A route of API Gateway."""

    method: str
    path: str
    operation: str
    verb: Verb

    @property
    def is_joined(self) -> bool:
        """Whether a name in the path may hold a slash, so that requests can also come by the fallback of the method."""
        return not JOINED.isdisjoint(_PARAMETER.findall(self.path))


def api_routes(document: Path = DOCUMENT) -> list[ApiRoute]:
    """The routes of everything that is implemented, by path and method. :class:`KeyError` for an operation that no function
    has."""
    routes = []
    for path, methods in json.loads(document.read_text())["paths"].items():
        for method in METHODS:
            described = methods.get(method)
            if described is not None and _NOT_IMPLEMENTED not in described["tags"]:
                operation = described["operationId"]
                if operation not in FUNCTION_OF:
                    raise KeyError(
                        f"operation {operation} of {document.name} has no function; give it one in infra/routes.py"
                    )
                routes.append(ApiRoute(method.upper(), BASE + path, operation, FUNCTION_OF[operation]))
    return sorted(routes, key=lambda route: (route.path, route.method))
