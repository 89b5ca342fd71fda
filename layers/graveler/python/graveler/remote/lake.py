"""A lake behind the HTTP API."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from graveler.model import LakeRule, LakeRules, Page, Repository
from graveler.remote.connection import PAGE, Connection, Query
from graveler.remote.repository import RemoteRepository
from graveler.wire import access_documents, config_documents, documents, rule_documents


class RemoteLake:
    """The repositories that an access key may see on a server: the verbs of :class:`graveler.lake.lake.Lake` that the API has,
    each one request unless stated otherwise. A context manager that closes the connections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.close: Callable[[], None] = connection.close

    def __repr__(self) -> str:
        return f"RemoteLake({self._connection.shown_url!r})"

    def __enter__(self) -> "RemoteLake":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def home(self) -> str:
        """The server's prefix for namespaces of repositories that name none."""
        prefix = self._connection.get(("config",), config_documents.Config).storage_config.default_namespace_prefix
        return prefix if prefix.endswith("//") else f"{prefix}/"

    @property
    def user(self) -> str:
        """The name under which the server knows the caller, and signs commits."""
        return self._connection.get(("user",), access_documents.CurrentUser).user.id

    def repository(self, name: str) -> RemoteRepository:
        """Return the repository of this name. No request."""
        return RemoteRepository(self._connection, name)

    def repositories(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Repository]:
        """List repositories by name. Of their settings, only ``read_only`` is included."""
        query: Query = {"prefix": prefix, "after": after, "amount": min(amount, PAGE)}
        page = self._connection.get(("repositories",), documents.RepositoryList, query)
        return Page(tuple(repository.value() for repository in page.results), page.pagination.next_after)

    def create_repository(
        self,
        name: str,
        namespace: str,
        *,
        default_branch: str = "main",
        by: str = "",
        read_only: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> RemoteRepository:
        """Create a repository with one branch."""
        document = {
            "name": name,
            "storage_namespace": namespace,
            "default_branch": default_branch,
            "read_only": read_only,
            "metadata": dict(metadata or {}),
        }
        self._connection.call("POST", ("repositories",), None, document)
        return self.repository(name)

    def rules(self) -> LakeRules:
        """Return the rules of the lake."""
        return self._connection.get(("settings", "rules"), LakeRules)

    def set_rules(self, rules: Sequence[LakeRule], if_match: int | None = None) -> LakeRules:
        """Replace the rules of the lake, and their copies in its repositories."""
        document = rule_documents.LakeRuleChange(tuple(rules), if_match)
        return self._connection.call("PUT", ("settings", "rules"), None, document).read(LakeRules)

    def delete_repository(self, name: str, *, force: bool = False) -> None:
        """Remove a repository from the lake; its objects stay in storage."""
        self._connection.call("DELETE", ("repositories", name), {"force": force})
