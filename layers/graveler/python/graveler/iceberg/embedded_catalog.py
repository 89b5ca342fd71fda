"""PyIceberg's REST catalog over a lake in this process: its requests go to the catalog's routes, without a network."""

from typing import Any, Final
from urllib.parse import urlsplit

from graveler.access.authentication import Access
from graveler.access.permissions import Identity, Role
from graveler.api.application import CATALOG, Application
from graveler.api.settings import Settings
from graveler.errors import UnavailableError
from graveler.files.lake import LakeHandle, open_handle
from graveler.lake.lake import Lake
from graveler.system.extras import not_installed

try:
    from pyiceberg.catalog.rest import RestCatalog
    from requests.adapters import BaseAdapter
    from requests.structures import CaseInsensitiveDict

    from requests import PreparedRequest, Response, Session
except ModuleNotFoundError as error:
    raise UnavailableError(not_installed("graveler.iceberg.Catalog", error.name, "iceberg")) from None

_ADDRESS: Final = f"http://graveler.invalid{CATALOG}"
"""The address of requests, which no network gets."""
_SECONDS: Final = 3600.0


class Catalog(RestCatalog):
    """The tables of a branch, a tag or a commit of a repository. ``warehouse`` is ``repository@ref``, by default the default
    branch's; ``lake`` is the lake's location as :func:`graveler.open` takes it, by default the one that the environment names.

    A lake behind a server is a REST catalog of PyIceberg's own: ``load_catalog(type="rest", uri="https://…/iceberg", …)``.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self._handle = open_handle(LakeHandle, properties.get("lake"))
        lake = self._handle.verbs
        if not isinstance(lake, Lake):
            raise UnavailableError(
                "graveler.iceberg.Catalog opens a lake in a folder or on AWS; for one behind a server use PyIceberg's own "
                "catalog: load_catalog(type='rest', uri='<server>/iceberg', warehouse=…, credential='<key ID>:<secret>')"
            )
        settings = Settings(hands_over=False, request_seconds=_SECONDS, presigned=False)
        self._application = Application(lake, _EmbeddedAccess(lake, self._handle.user), settings)
        super().__init__(name, **{**properties, "uri": _ADDRESS})

    def _create_session(self) -> Session:
        session = super()._create_session()
        session.mount(_ADDRESS, _ApplicationAdapter(self._application))
        return session

    def close(self) -> None:
        """Release the lake's files and connections."""
        super().close()
        self._application.close()
        self._handle.close()


class _EmbeddedAccess(Access):
    """The access of whoever can open the lake: everything is permitted."""

    def __init__(self, lake: Lake, user: str) -> None:
        super().__init__(lake.tables)
        self._identity = Identity("", user, Role.ADMIN)

    def authenticate(self, authorization: str | None, cookie: str | None, source: str) -> Identity:  # noqa: ARG002 - one user
        """Return the user. No request."""
        return self._identity


class _ApplicationAdapter(BaseAdapter):
    """Sends requests to an application in this process."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self._application = application

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:  # noqa: ARG002 - nothing waits here
        """Return the application's response."""
        address = urlsplit(request.url or "")
        event = {
            "rawPath": address.path,
            "rawQueryString": address.query,
            "headers": {
                name.lower(): str(text) for name, text in request.headers.items() if name.lower() != "accept-encoding"
            },
            "requestContext": {"http": {"method": request.method}},
            "body": request.body,
        }
        answer, _ = self._application.respond(event)
        response = Response()
        response.status_code = answer.status
        response.headers = CaseInsensitiveDict(answer.headers)
        body = answer.body
        response._content = body.encode() if isinstance(body, str) else bytes(body)
        response.encoding = "utf-8"
        response.url, response.request = request.url or "", request
        return response

    def close(self) -> None:
        """Do nothing: the application is the catalog's."""
