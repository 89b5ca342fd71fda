"""Setup: the first access key of a lake that never had one, for the first client that asks. Off, unless
:class:`graveler.api.settings.Settings` enable it: ``graveler serve`` and deployments create that key themselves."""

from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.origins import expect_no_other_page
from graveler.api.response import Response, json_response, no_content
from graveler.api.routing import Routes
from graveler.wire.access_documents import CredentialsWithSecret, Setup, SetupState
from graveler.wire.error_documents import Error

routes = Routes("setup")


@routes.get("/setup_lakefs", "getSetupState", None, responses={200: SetupState})
def get_setup_state(call: Call) -> Response:
    """Tell whether the lake has been set up, so that someone can log in."""
    return json_response(SetupState("initialized" if call.access.has_keys() else "not_initialized"))


@routes.post("/setup_lakefs", "setup", None, responses={200: CredentialsWithSecret, 400: Error, 403: Error, 409: Error})
def set_up(call: Call, body: Setup) -> Response:
    """Create the first access key, with the role admin; 409 if there has ever been one. 403 unless the server was started for
    that.
    """
    _expect_open(call)
    expect_no_other_page(call.headers)
    if not body.username:
        raise bad_request("username is empty; name the holder of the first key")
    chosen = None if body.key is None else (body.key.access_key_id, body.key.secret_access_key)
    created = call.access.set_up(body.username, chosen)
    if created is None:
        raise ApiError(409, "lakeFS already initialized: this lake has access keys")
    call.audit("200")
    return json_response(CredentialsWithSecret(created.key.key_id, created.secret, created.key.created))


@routes.post("/setup_comm_prefs", "setupCommPrefs", None, function="read", responses={200: None, 403: Error})
def set_communication_preferences(call: Call) -> Response:
    """Accept communication preferences, and discard them. 403 as for the first access key."""
    _expect_open(call)
    return no_content(status=200)


def _expect_open(call: Call) -> None:
    if not call.settings.open_setup:
        raise ApiError(
            403,
            "this lake cannot be set up over HTTP: `graveler serve` creates the first access key on its first start, a "
            "deployment stores it in Secrets Manager, and `graveler keys create`, on the lake itself, creates others",
        )
