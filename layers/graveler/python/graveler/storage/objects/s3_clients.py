"""Clients of S3: their settings, and what other programs need to know to reach the same S3."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.aws_configuration import configured_endpoint, region_of
from graveler.storage.aws_requests import FAILURES, Clients, explained
from graveler.storage.objects.s3_signature import Keys
from graveler.system.retries import Retries

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


class S3Settings(Struct, frozen=True):
    """The settings for S3. ``region`` and ``endpoint_url``, if None, and the credentials come from AWS's own configuration.

    ``path_style`` puts the bucket's name into the path instead of the host's name; None: if an ``endpoint_url`` is set here or in
    AWS's configuration. A name with dots, which AWS's certificates do not cover, always stands in the path. Times in seconds;
    ``list_page`` is the number of keys per request of a listing.
    """

    region: str | None = None
    endpoint_url: str | None = None
    path_style: bool | None = None
    connect_timeout: float = 5
    read_timeout: float = 30
    list_page: int = 1000
    retries: Retries = Retries()


class S3Place(Struct, frozen=True):
    """The S3 of some settings, as other programs reach it. ``endpoint`` is the URL of another server than AWS's; None: AWS's."""

    region: str
    endpoint: str | None
    path_style: bool


class S3Credentials(Struct, frozen=True):
    """The credentials that sign the requests of a client, for so many seconds."""

    keys: Keys
    seconds_left: int


def place_of(settings: S3Settings) -> S3Place:
    """Return the S3 that a client with these settings uses. No request. :class:`UnavailableError` without a region."""
    meta = CLIENTS.get(settings).meta
    style = getattr(meta.config, "s3", None) or {}
    is_own = meta.endpoint_url.startswith("https://s3.") and ".amazonaws.com" in meta.endpoint_url
    return S3Place(
        meta.region_name, None if is_own else meta.endpoint_url, path_style=style.get("addressing_style") == "path"
    )


def credentials_of(settings: S3Settings, subject: str) -> S3Credentials:
    """Return the credentials of the client with these settings, renewed if they are about to end; a client whose credentials have
    no end has many seconds left. A request of their source at most. :class:`UnavailableError` without valid ones."""
    try:
        credentials = CLIENTS.get(settings)._request_signer._credentials  # type: ignore[attr-defined]
        if credentials is None:
            raise UnavailableError(f"{subject}: no AWS credentials were found; set AWS_PROFILE, or run with a role")
        frozen = credentials.get_frozen_credentials()  # renews them if they are about to end
    except FAILURES as error:
        raise explained(error, subject) from error
    end: datetime | None = getattr(credentials, "_expiry_time", None)
    seconds = 1 << 31 if end is None else int((end - datetime.now(UTC)).total_seconds())
    if seconds < 1:
        raise UnavailableError(f"{subject}: the credentials have expired; get new ones, then try again")
    return S3Credentials(Keys(frozen.access_key, frozen.secret_key, frozen.token or ""), seconds)


def _connect(settings: S3Settings) -> "S3Client":
    import boto3  # 300 ms, with a client
    from botocore.config import Config
    from botocore.session import Session

    session = Session()
    path_style = settings.path_style
    if path_style is None:
        path_style = (settings.endpoint_url or configured_endpoint(session, "s3")) is not None
    config = Config(
        signature_version="s3v4",
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        max_pool_connections=32,
        retries={"total_max_attempts": 1, "mode": "standard"},  # aws_requests.send retries
        # Each request asks for checksums itself: a presigned URL must not promise one that its user does not send.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # By "auto", presigned URLs would go to bucket.s3.amazonaws.com. That host answers 400 for buckets in regions opened after
        # March 2019, and redirects for new ones, where the signature is for another host:
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
        s3={"addressing_style": "path" if path_style else "virtual", "us_east_1_regional_endpoint": "regional"},
    )
    try:
        client = boto3.session.Session(botocore_session=session, region_name=region_of(settings.region)).client(
            "s3", endpoint_url=settings.endpoint_url, config=config
        )
    except ValueError as error:
        raise InvalidError(f"S3 endpoint {settings.endpoint_url!r} cannot be used: {error}") from None
    client.meta.events.register("before-call.s3", _stay_in_region)
    return client


def _stay_in_region(params: dict[str, Any], **_: object) -> None:
    """Follow no bucket to another region, as botocore does by itself: it then signs URLs for that region if it has queried the
    bucket before, and otherwise URLs that S3 refuses. The caller gets an error about such a bucket instead."""
    params["context"].setdefault("s3_redirect", {})["redirected"] = True


CLIENTS: Final[Clients[S3Settings, "S3Client"]] = Clients(_connect)
"""The clients of this process, by their settings."""
