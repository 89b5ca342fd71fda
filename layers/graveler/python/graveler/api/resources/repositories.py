"""Repositories: list, create, inspect, delete; their metadata and settings."""

import time
from collections.abc import Callable
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import asdict, replace

from graveler.access.sources import ImportSources as AllowedSources
from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import once
from graveler.api.namespace_checks import check_namespace
from graveler.api.queries import ForceQuery, PageQuery, Query, chosen_names
from graveler.api.reserved_names import note_bare
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.api.sample import add_sample
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.repository_settings import etag
from graveler.model import Page, RetentionRules
from graveler.model import Repository as KnownRepository
from graveler.requests import setting_changes
from graveler.requests.base import Permission
from graveler.wire.documents import (
    MAX_PER_PAGE,
    ListedRepositories,
    ListedRepository,
    Pagination,
    Repository,
    commit_document,
    repository_document,
)
from graveler.wire.error_documents import NO_RULES_CODE, Error
from graveler.wire.repository_documents import (
    GCRule,
    GCRules,
    ImportSources,
    ProtectionRule,
    RepositoryCreation,
)

routes = Routes("repositories")


class RepositoriesQuery(PageQuery, frozen=True, kw_only=True):
    """The repositories to list. ``search`` keeps those whose name, or a value in whose metadata, contains it."""

    search: str = ""
    details: Annotated[
        str,
        Meta(
            description="some of `commit`, `metadata`, with a comma between them: the last commit of the default branch, and the "
            "repository's metadata"
        ),
    ] = ""

    def matches(self, repository: KnownRepository) -> bool:
        """Return whether a repository has the text that is searched for."""
        return any(self.search in text for text in (repository.name, *repository.settings.metadata.values()))


class CreateQuery(Query, frozen=True, kw_only=True):
    """``bare``: without a first branch, to be restored into."""

    bare: bool = False


@routes.get("/repositories", "listRepositories", Permission.READ, responses={200: ListedRepositories, 400: Error})
def list_repositories(call: Call, query: RepositoriesQuery) -> Response:
    """List the repositories that the access key can see, by name; on request with what a list shows of each."""
    details = chosen_names("details", query.details, ("commit", "metadata"))

    def shown(repository: KnownRepository) -> bool:
        return query.matches(repository) and call.identity.sees(repository.name)

    repositories, more = _filtered(
        lambda after: call.lake.repositories(query.prefix, after, MAX_PER_PAGE), shown, query.after, query.limit
    )
    documents = [_listed(repository, with_metadata="metadata" in details) for repository in repositories]
    if "commit" in details:
        heads = call.lake.head_commits(repositories)
        documents = [
            replace(document, commit=None if head is None else commit_document(head))
            for document, head in zip(documents, heads, strict=True)
        ]
    position = Pagination(more, repositories[-1].name if more else "", len(repositories))
    return json_response(ListedRepositories(position, documents))


def _listed(repository: KnownRepository, *, with_metadata: bool) -> ListedRepository:
    document = ListedRepository(**asdict(repository_document(repository)))
    return replace(document, metadata=repository.settings.metadata) if with_metadata else document


@routes.post(
    "/repositories",
    "createRepository",
    Permission.ADMIN,
    responses={201: Repository, 400: Error, 409: Error, 501: Error},
)
def create_repository(call: Call, query: CreateQuery, body: RepositoryCreation) -> Response:
    """Create a repository with one branch and an empty first commit. A bare one exists once something has been restored into
    it."""
    if body.storage_id:
        raise bad_request(f"storage_id {body.storage_id!r} is unknown; this lake has one store, so leave it empty")
    check_namespace(call, body.storage_namespace)
    call.identity.require(Permission.ADMIN, body.name)

    default_branch = body.default_branch or "main"
    if query.bare:
        call.identity.require(Permission.ADMIN)  # as for a restore
        note_bare(call, body.name, body.storage_namespace)
        noted = Repository(body.name, int(time.time()), default_branch, body.storage_namespace)
        return json_response(noted, 201)

    def make() -> Response:
        opened = call.lake.create_repository(
            body.name,
            body.storage_namespace,
            default_branch=default_branch,
            by=call.committer,
            read_only=bool(body.read_only),
            metadata=body.metadata,
        )
        return made(opened)

    def made(opened: OpenRepository) -> Response:
        if body.sample_data:
            add_sample(opened, actor=call.identity.actor)
        return json_response(repository_document(opened.repository), 201)

    def created_earlier() -> Response | None:
        opened = call.lake.repository(body.name)
        existing = opened.repository
        same = (existing.namespace, existing.default_branch) == (body.storage_namespace.rstrip("/"), default_branch)
        return made(opened) if same else None

    return once(call, make, created_earlier)


@routes.get(
    "/repositories/{repository}", "getRepository", Permission.READ, responses={200: Repository, 404: Error}, short=True
)
def get_repository(call: Call, repository: str) -> Response:
    """Describe a repository."""
    return json_response(repository_document(call.lake.repository(repository).repository))


@routes.delete(
    "/repositories/{repository}",
    "deleteRepository",
    Permission.ADMIN,
    responses={204: None, 403: Error, 404: Error},
)
def delete_repository(call: Call, repository: str, query: ForceQuery) -> Response:
    """Delete a repository; its objects stay where they are."""
    call.lake.delete_repository(repository, force=call.force(query.force))
    return no_content()


@routes.get(
    "/repositories/{repository}/metadata",
    "getRepositoryMetadata",
    Permission.READ,
    responses={200: dict[str, str], 404: Error},
)
def get_metadata(call: Call, repository: str) -> Response:
    """Return the repository's own metadata."""
    return json_response(call.lake.repository(repository).repository.settings.metadata)


@routes.run(setting_changes.SetMetadata, responses={204: None, 400: Error, 403: Error, 404: Error})
def set_metadata(call: Call, repository: str, request: setting_changes.SetMetadata) -> Response:
    """Set some keys of the metadata; the others stay."""
    call.run(repository, request)
    return no_content()


@routes.run(setting_changes.DeleteMetadata, responses={204: None, 403: Error, 404: Error})
def delete_metadata(call: Call, repository: str, request: setting_changes.DeleteMetadata) -> Response:
    """Remove some keys of the metadata."""
    call.run(repository, request)
    return no_content()


@routes.get(
    "/repositories/{repository}/gc/rules",
    "internalGetGarbageCollectionRules",
    Permission.READ,
    responses={200: GCRules, 404: Error},
)
@routes.get(
    "/repositories/{repository}/settings/gc_rules", "getGCRules", Permission.READ, responses={200: GCRules, 404: Error}
)
def get_gc_rules(call: Call, repository: str) -> Response:
    """Return the retention rules; 404 if none are set."""
    rules = call.lake.repository(repository).repository.settings.retention
    if rules is None:
        raise ApiError(404, f"not found: repository {repository!r} has no garbage collection rules", code=NO_RULES_CODE)
    branches = [GCRule(branch, days) for branch, days in rules.branches.items()]
    return json_response(GCRules(rules.default_days, branches))


@routes.post(
    "/repositories/{repository}/gc/rules",
    "internalSetGarbageCollectionRules",
    setting_changes.SetRetention,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
@routes.put(
    "/repositories/{repository}/settings/gc_rules",
    "setGCRules",
    setting_changes.SetRetention,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def set_gc_rules(call: Call, repository: str, query: ForceQuery, body: GCRules) -> Response:
    """Replace the retention rules."""
    branches = {rule.branch_id: rule.retention_days for rule in body.branches}
    rules = RetentionRules(body.default_retention_days, branches)
    call.run(repository, setting_changes.SetRetention(rules=rules, force=call.force(query.force)))
    return no_content()


@routes.delete(
    "/repositories/{repository}/gc/rules",
    "internalDeleteGarbageCollectionRules",
    setting_changes.DeleteRetention,
    responses={204: None, 403: Error, 404: Error},
)
@routes.run(setting_changes.DeleteRetention, responses={204: None, 403: Error, 404: Error})
def delete_gc_rules(call: Call, repository: str, request: setting_changes.DeleteRetention) -> Response:
    """Remove the retention rules."""
    call.run(repository, request)
    return no_content()


@routes.get(
    "/repositories/{repository}/branch_protection",
    "internalGetBranchProtectionRules",
    Permission.READ,
    responses={200: list[ProtectionRule], 404: Error},
)
@routes.get(
    "/repositories/{repository}/settings/branch_protection",
    "getBranchProtectionRules",
    Permission.READ,
    responses={200: list[ProtectionRule], 404: Error},
)
def get_branch_protection(call: Call, repository: str) -> Response:
    """List the patterns of protected branches. The header ETag identifies this state, for `If-Match` when changing it."""
    protected = call.lake.repository(repository).repository.settings.protected
    return json_response([ProtectionRule(pattern) for pattern in protected], headers={"etag": f'"{etag(protected)}"'})


@routes.put(
    "/repositories/{repository}/settings/branch_protection",
    "setBranchProtectionRules",
    setting_changes.SetProtection,
    responses={204: None, 400: Error, 403: Error, 404: Error, 412: Error},
)
def set_branch_protection(call: Call, repository: str, query: ForceQuery, body: list[ProtectionRule]) -> Response:
    """Replace the patterns of protected branches; with the header `If-Match`, only if they still have that ETag."""
    condition = call.headers.get("if-match", "*").strip()
    if_match = None if condition == "*" else condition.removeprefix("W/").strip('"')
    request = setting_changes.SetProtection(
        patterns=tuple(rule.pattern for rule in body), if_match=if_match, force=call.force(query.force)
    )
    call.run(repository, request)
    return no_content()


_SOURCES: Final = "/repositories/{repository}/settings/import_sources"


@routes.get(_SOURCES, "getImportSources", Permission.READ, responses={200: ImportSources, 404: Error})
def get_import_sources(call: Call, repository: str) -> Response:
    """Return the addresses that objects may be imported from, among those that the deployment allows."""
    prefixes = call.lake.repository(repository).repository.settings.import_sources
    return json_response(ImportSources(None if prefixes is None else list(prefixes)))


@routes.put(
    _SOURCES,
    "setImportSources",
    setting_changes.SetImportSources,
    responses={204: None, 400: Error, 403: Error, 404: Error},
)
def set_import_sources(call: Call, repository: str, query: ForceQuery, body: ImportSources) -> Response:
    """Limit the addresses that objects may be imported from, or (null) remove the limit."""
    opened = call.lake.repository(repository)
    if body.prefixes is not None:
        AllowedSources(body.prefixes)  # refuses ambiguous addresses
    prefixes = None if body.prefixes is None else tuple(body.prefixes)
    opened.run(setting_changes.SetImportSources(prefixes=prefixes, force=call.force(query.force)), call.context())
    return no_content()


@routes.run(setting_changes.SetReadOnly, responses={204: None, 400: Error, 404: Error})
def set_read_only(call: Call, repository: str, request: setting_changes.SetReadOnly) -> Response:
    """Refuse every change that is not forced, or allow changes again. Uncommitted changes stay."""
    call.run(repository, request)
    return no_content()


@routes.get(
    "/repositories/{repository}/branch_protection/set_allowed",
    "createBranchProtectionRulePreflight",
    Permission.ADMIN,
    responses={204: None, 404: Error},
)
@routes.get(
    "/repositories/{repository}/gc/rules/set_allowed",
    "setGarbageCollectionRulesPreflight",
    Permission.ADMIN,
    responses={204: None, 404: Error},
)
def may_set(call: Call, repository: str) -> Response:
    """Tell whether the access key may change these settings."""
    call.lake.repository(repository)
    return no_content()


def _filtered(
    pages: Callable[[str], Page[KnownRepository]],
    shown: Callable[[KnownRepository], bool],
    after: str,
    amount: int,
) -> tuple[list[KnownRepository], bool]:
    """Return up to ``amount`` matching repositories, and whether more follow."""
    matches: list[KnownRepository] = []
    while True:
        page = pages(after)
        for repository in page.results:
            if shown(repository):
                if len(matches) == amount:
                    return matches, True
                matches.append(repository)
        if page.next_after is None:
            return matches, False
        after = page.next_after
