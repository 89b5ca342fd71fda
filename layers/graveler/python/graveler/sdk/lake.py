"""The functions that open and create a lake, and the handle on one."""

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from graveler.errors import InvalidError, UnavailableError
from graveler.files.lake import LakeHandle, LakeOptions, named_lake, open_handle
from graveler.files.shared_lake import address_of
from graveler.lake.opening.location import create_at
from graveler.location.environment import find_location, user_name
from graveler.model import Repository as RepositoryProperties
from graveler.sdk.listing import Listing, mapped
from graveler.sdk.page_size import page_size
from graveler.sdk.repository import Repository
from graveler.system.extras import not_installed
from graveler.system.tracebacks import short_traceback, short_tracebacks

if TYPE_CHECKING:
    from graveler.lake.lake import Lake as OwnLake
    from graveler.sdk.query import Result
    from graveler.sql.session import Parameters


@short_tracebacks("repository", "repositories")
class Lake(LakeHandle):
    """A collection of repositories. A context manager that closes the lake.

    ``user`` is the author of changes and commits. It can be pickled, as can the handles on what is in it, if it was opened by its
    ``address``: the other process opens the lake again, with credentials of its own.
    """

    def _repr_html_(self) -> str:
        from graveler.sdk.display_tables import lake_card  # for notebooks

        address = self._shared.address
        name = repr(self._shared) if address is None else str(address)
        return lake_card(f"lake {name}", self.user, lambda amount: self.verbs.repositories("", "", amount).results)

    def repository(self, repository_id: str) -> Repository:
        """Return a handle on the repository of this name. It need not exist yet. No request."""
        return Repository(self._shared, repository_id, self.user)

    def repositories(self, max_amount: int | None = None, after: str = "", prefix: str = "") -> Listing[Repository]:
        """List the repositories by name. Cost: one table read per thousand, made as the listing is consumed."""
        amount = page_size(max_amount)
        return mapped(
            "repositories",
            RepositoryProperties,
            lambda repository: self.repository(repository.name),
            lambda position: self.verbs.repositories(prefix, position, amount),
            max_amount,
            after,
        )

    @property
    def own(self) -> "OwnLake":
        """The underlying lake, which offers more than a server does. :class:`InvalidError` for a lake behind a server. No
        request."""
        from graveler.lake.lake import Lake as OwnLake

        if not isinstance(self.verbs, OwnLake):
            raise InvalidError("this does not work through a server; open the lake itself")
        return self.verbs

    def sql(self, query: str, parameters: "Parameters | None" = None) -> "Result":
        """Run a query of DuckDB's SQL and return its rows. It may read the lake's files,
        ``FROM 'graveler://sales/main/orders/*.parquet'``, and its history, by the functions ``objects('sales/main')``,
        ``diff('sales', 'main~1', 'main')``, ``staged``, ``blame``, ``commits``, ``reflog``, ``branches``, ``tags`` and
        ``repositories``. ``parameters`` are the values of ``?`` or ``$name``.

        Functions resolve refs once, so a statement sees one state of each; of paths, it reads the ranges that its conditions
        need. Statements that are no queries run at once; so do all but the last. Ctrl-C ends a query. Needs
        ``pip install 'graveler[sql]'``: :class:`UnavailableError` without. :class:`InvalidError` for a query that DuckDB refuses;
        :class:`RefNotFoundError`, :class:`ForbiddenError` and other errors of the lake.
        """
        from graveler.sdk.query import result_of  # for those that query

        try:
            from graveler.sql.session import Session
        except ModuleNotFoundError as error:
            raise UnavailableError(not_installed("SQL", error.name, "sql")) from None
        return result_of(Session(self), query, parameters)

    def __enter__(self) -> "Lake":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@short_traceback
def open_lake(
    location: str | Path | None = None,
    *,
    user: str | None = None,
    objects: str | None = None,
    region: str | None = None,
    s3_endpoint_url: str | None = None,
    dynamodb_endpoint_url: str | None = None,
    login: Literal["aws"] | None = None,
    profile: str | None = None,
) -> Lake:
    """Open a lake: a folder (``~`` is the home folder) or the ``.graveler`` in it; ``dynamodb://table``, a lake on AWS whose
    repositories are stored under ``objects`` (``s3://bucket/prefix``); ``https://host``, a lake behind a server's HTTP API.
    Exported as ``graveler.open``.

    Without a ``location``: the lake of the ``profile`` in the user's configuration file, else the one named by GRAVELER_LAKE,
    GRAVELER_TABLES or GRAVELER_ENDPOINT, else that of the profile GRAVELER_PROFILE or ``default``, else the nearest lake upward
    from the working folder; without ``objects``, GRAVELER_OBJECTS. Region, credentials and endpoints of AWS that are not given
    are found the way AWS's own tools find them. ``user`` signs commits; the default is GRAVELER_USER, else ``user`` in the
    configuration file, else the login name. A server gets the access key of the ``profile``, or the one in
    GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY, or that of the profile in use, or lakectl's key for it, and the key's
    name signs. With ``login="aws"``, or GRAVELER_LOGIN, AWS's credentials
    log in to the server instead, again each time before a token expires; with GRAVELER_SESSION_TOKEN, an existing token does.

    :class:`NotFoundError` if no lake or no such profile is found, :class:`InvalidError` for arguments that name two lakes or half
    of one, :class:`ForbiddenError` for a server without a key. Opening a lake on AWS or behind a server makes no request.
    """
    return open_handle(
        Lake,
        location,
        user=user,
        objects=objects,
        region=region,
        s3_endpoint_url=s3_endpoint_url,
        dynamodb_endpoint_url=dynamodb_endpoint_url,
        login=login,
        profile=profile,
    )


@short_traceback
def create_lake(
    location: str | Path,
    *,
    user: str | None = None,
    create_table: bool = False,
    objects: str | None = None,
    region: str | None = None,
    s3_endpoint_url: str | None = None,
    dynamodb_endpoint_url: str | None = None,
) -> Lake:
    """Create an empty lake in a folder (``~`` is the home folder), which is created if missing, or on AWS. Exported as
    ``graveler.create``.

    Arguments as for :func:`open_lake`; with ``create_table``, the table of a lake on AWS is created if missing. Cost and errors
    as :func:`graveler.lake.opening.location.create_at`.
    """
    options = LakeOptions(
        objects=objects,
        region=region,
        s3_endpoint_url=s3_endpoint_url,
        dynamodb_endpoint_url=dynamodb_endpoint_url,
    )
    place = find_location(named_lake(location, options))
    lake = create_at(place, create_table=create_table)
    return Lake(lake, user_name() if user is None else user, address_of(place))
