"""The verb for the HTTP server of a lake, in a folder or on AWS."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from graveler.cli.local_files import file_named
from graveler.cli.locations import HIDDEN, LAKE, Named, find_location, user_name, working_folder
from graveler.cli.options import AsJson, LakeOption
from graveler.cli.terminal import Screen, output
from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation, create_at, open_at
from graveler.location.environment import KEY_ID, SECRET, TABLE_ROLE, lake_in
from graveler.system.extras import not_installed
from graveler.system.secret_variables import withdraw
from graveler.system.temporary_files import own_folder

if TYPE_CHECKING:
    from graveler.access.keys import KeyWithSecret
    from graveler.gateway.listener import Listener
    from graveler.gateway.served import ServedGateway


def serve(
    lake: LakeOption = None,
    objects: Annotated[
        str | None,
        typer.Option(
            "--objects",
            metavar="URL",
            help="With --tables, instead of --lake: where new repositories are stored, s3://BUCKET/PREFIX.",
        ),
    ] = None,
    tables: Annotated[
        str | None, typer.Option("--tables", metavar="URL", help="The lake's DynamoDB table, dynamodb://TABLE.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region", metavar="REGION", help="Region of S3 and DynamoDB. [default: from AWS's configuration]"
        ),
    ] = None,
    s3_endpoint_url: Annotated[
        str | None, typer.Option("--s3-endpoint-url", metavar="URL", help="Use another S3-compatible server.")
    ] = None,
    dynamodb_endpoint_url: Annotated[
        str | None,
        typer.Option("--dynamodb-endpoint-url", metavar="URL", help="Use another DynamoDB-compatible server."),
    ] = None,
    create_table: Annotated[
        bool, typer.Option("--create-table", help="Create the DynamoDB table if it does not exist.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            metavar="FOLDER",
            help="Where to cache immutable files from S3. [default: a folder for this lake in the user's cache folder]",
        ),
    ] = None,
    sealing_key_file: Annotated[
        Path | None,
        typer.Option(
            "--sealing-key-file",
            metavar="FILE",
            help="File with the key that seals the secrets in the table: 32 bytes in base64, readable only by you. "
            "[default: GRAVELER_SEALING_KEY_FILE]",
        ),
    ] = None,
    kms_key: Annotated[
        str | None,
        typer.Option(
            "--kms-key",
            metavar="ARN",
            help="An AWS KMS key to seal them with instead. [default: GRAVELER_KMS_KEY]",
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free one.")
    ] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Number of worker processes.")] = 2,
    data_url: Annotated[
        str | None,
        typer.Option(
            "--data-url",
            metavar="URL",
            help="Base of presigned URLs, for a lake in a folder. [default: localhost and the port]",
        ),
    ] = None,
    import_source: Annotated[
        list[str] | None,
        typer.Option(
            "--import-source",
            metavar="PREFIX",
            help="Address that clients may import and link from, such as file:///raw/ or s3://raw/; repeatable. [default: none]",
        ),
    ] = None,
    presign_seconds: Annotated[
        int, typer.Option("--presign-seconds", min=1, max=604800, help="Lifetime of presigned URLs.")
    ] = 900,
    verify_bytes: Annotated[
        bool,
        typer.Option(
            "--verify-bytes",
            help="Verify the MD5 of whole objects that pass through the server, not just their size.",
        ),
    ] = False,
    client_address_header: Annotated[
        str,
        typer.Option(
            "--client-address-header",
            metavar="NAME",
            help="The header to which a proxy adds the client's address, such as X-Forwarded-For. The last address in it is "
            "trusted, so use this only behind such a proxy. [default: none]",
        ),
    ] = "",
    open_setup: Annotated[
        bool,
        typer.Option(
            "--open-setup",
            help="Create no access key: the first client that asks for one gets it (POST /setup_lakefs). For testing clients; "
            "allowed only on a loopback address.",
        ),
    ] = False,
    aws_login: Annotated[
        list[str] | None,
        typer.Option(
            "--aws-login",
            metavar="NAME",
            help="Let AWS principals log in if their client signs this name, the host name that it knows the server by; "
            "repeatable. [default: no logins]",
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--cors-origin",
            metavar="ORIGIN",
            help="Let scripts of this site's pages use the server, such as https://example.org; repeatable. [default: none]",
        ),
    ] = None,
    base_path: Annotated[
        str,
        typer.Option(
            "--base-path",
            metavar="PATH",
            help="Path below which a proxy shows the server, such as /lake. It may remove the path from requests or leave it. "
            "[default: /]",
        ),
    ] = "",
    s3_port: Annotated[
        int | None,
        typer.Option(
            "--s3-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Also serve the lake to S3 clients, at this port of the same host; 0 for any free one. A bucket is a "
            "repository, and a key begins with a branch, tag or commit. [default: no S3]",
        ),
    ] = None,
    s3_domain: Annotated[
        list[str] | None,
        typer.Option(
            "--s3-domain",
            metavar="NAME",
            help="With --s3-port: a host name of this server in front of which clients write the bucket, as in "
            "sales.s3.example.org; repeatable. [default: localhost]",
        ),
    ] = None,
    s3_certificate: Annotated[
        Path | None,
        typer.Option(
            "--s3-certificate",
            metavar="FILE",
            help="With --s3-port: speak TLS, with this certificate (PEM).",
            parser=file_named,
        ),
    ] = None,
    s3_certificate_key: Annotated[
        Path | None,
        typer.Option(
            "--s3-certificate-key", metavar="FILE", help="The key of that certificate (PEM).", parser=file_named
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log each request to stderr, as a line of JSON.")
    ] = False,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            "--audit-log", metavar="FILE", help="Where to write the audit log. [default: stderr]", parser=file_named
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the lake over HTTP, for lakectl, Spark and other lakeFS clients.

    If the lake does not exist, it is created. The first start creates an access key and shows it once, unless
    GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY set the key. On SIGTERM or Ctrl-C, the server finishes the requests in
    progress.

    With --objects and --tables the lake is on S3 and DynamoDB, accessed with the credentials that AWS's own tools use, and
    presigned URLs are S3's. The bucket must exist; so must the table, unless --create-table is given. The key named by
    --sealing-key-file or --kms-key seals the secrets in the table; a lake in a folder has its own key, in sealing.key.

    Whenever the server reads an object, it verifies the size, and with --verify-bytes also the MD5. On a mismatch the client gets
    an error instead of the object, or, if part of it has been sent, a broken connection. S3's presigned URLs bypass the server;
    graveler's own clients verify size and MD5 themselves.

    With --s3-port, clients of S3 read and write branches, too, with access keys that were made for it:
    `graveler keys create --s3`.

    With --aws-login, AWS principals that a rule allows (`graveler principals`) can log in without an access key.

    Clients can import and link only from the import sources, and can create repositories only in the lake (local://NAME, or below
    --objects), not in other folders or buckets; use `graveler repo create` on the lake itself for those.

    \b
    Examples:
      graveler serve
      graveler serve --lake /data/lake --port 0 --workers 4
      graveler serve --objects s3://bucket/lake --tables dynamodb://lake \\
        --sealing-key-file ~/lake.key

    \b
    JSON: one document when it is ready, {url, data_url, s3_url, lake, tables,
      workers, access_key_id, secret_access_key}; the last two are null unless a
      key was created, tables is null for a lake in a folder, data_url for one on
      AWS, s3_url without --s3-port.
    """
    from graveler.access.authentication import Access
    from graveler.access.sources import ImportSources
    from graveler.lake.gates.checks.check_settings import settings_of_process
    from graveler.server.configuration import SecretVariables, ServerSettings, parse_base_path

    try:
        from graveler.server.cors import CrossOrigin
        from graveler.server.listening import listening_port
        from graveler.server.serve import serve as run
    except ModuleNotFoundError as error:
        raise UnavailableError(not_installed("graveler serve", error.name, "server")) from None

    screen = output(as_json=as_json)
    if open_setup and not _is_loopback(host):
        raise InvalidError(
            f"--open-setup lets anyone who can reach {host!r} create the first access key, so it works only on a loopback "
            "address: leave out --host, or --open-setup"
        )
    CrossOrigin(cors_origin or ())  # refuses what is no origin
    settings_of_process()  # refuses what no check could be made with
    below, table_role = parse_base_path(base_path), _table_role()
    if s3_port is None and (s3_domain or s3_certificate or s3_certificate_key):
        raise InvalidError("--s3-domain and --s3-certificate are for S3 clients: give a port for them with --s3-port")
    if (s3_certificate is None) != (s3_certificate_key is None):
        raise InvalidError("TLS needs both --s3-certificate and --s3-certificate-key")
    if s3_certificate is not None:
        from graveler.gateway.listener import Listener

        Listener(
            port=0, certificate=s3_certificate, certificate_key=s3_certificate_key
        ).tls()  # workers would fail unseen
    sources = tuple(import_source or ())
    ImportSources(sources)  # refuses invalid prefixes
    if aws_login:
        from graveler.access.aws_login import AwsLogin

        AwsLogin(aws_login)  # refuses invalid names
    location, is_new = _location(
        replace(
            _named(lake or Named(), objects, tables, region, s3_endpoint_url, dynamodb_endpoint_url, cache),
            sealing_key_file=sealing_key_file,
            kms_key=kms_key,
        ),
        create_table=create_table,
    )
    if data_url is not None and isinstance(location, AwsLake):
        raise InvalidError("--data-url is for a lake in a folder; on AWS, presigned URLs are S3's own: leave it out")
    if is_new:
        screen.note(f"created an empty lake in {screen.safe(str(location))}")
    credentials = os.environ.get(KEY_ID), os.environ.get(SECRET)
    with (
        listening_port(host, port) as chosen,
        _s3_listener(host, s3_port, s3_certificate, s3_certificate_key) as s3_listener,
        TemporaryDirectory(dir=own_folder(), prefix="serve-") as metrics,
    ):
        # the ports are free by now: a key that is made here will be shown
        with open_at(location, create_table=create_table, sources=sources) as opened:
            needs_key = not open_setup or any(credentials)
            opened.keyring.ready()
            key = (
                Access(opened.tables).ensure_first_key(*credentials, name=user_name() or "admin") if needs_key else None
            )
        shown = None if credentials[0] else key
        url = f"http://{f'[{host}]' if ':' in host else host}:{chosen}"
        s3_url = None if s3_listener is None else s3_listener.url
        companion = None if s3_listener is None else _s3_gateway(s3_listener, s3_domain or ())
        settings = ServerSettings(
            lake=location,
            metrics=Path(metrics),
            host=host,
            port=chosen,
            workers=workers,
            data_url=data_url or _data_url(host, chosen),
            log_requests=access_log,
            audit_log=None if audit_log is None else audit_log.absolute(),
            import_sources=sources,
            presign_seconds=presign_seconds,
            verify_bytes=verify_bytes,
            client_address_header=client_address_header.strip().lower(),
            open_setup=open_setup,
            aws_login=tuple(aws_login or ()),
            cors_origins=tuple(cors_origin or ()),
            base_path=below,
            table_role=table_role,
            secrets=SecretVariables(_for_workers()),
        )

        def ready() -> None:
            screen.answer(
                {
                    "url": url,
                    "data_url": settings.data_url if isinstance(location, FolderLake) else None,
                    "s3_url": s3_url,
                    "lake": _name(location),
                    "tables": location.tables if isinstance(location, AwsLake) else None,
                    "workers": workers,
                    "access_key_id": shown.key.key_id if shown else None,
                    "secret_access_key": shown.secret if shown else None,
                },
                *_welcome(screen, url, s3_url, _name(location), workers, shown),
            )
            sys.stdout.flush()

        run(settings, ready, companion)
    screen.note("stopped")


@contextmanager
def _s3_listener(
    host: str, port: int | None, certificate: Path | None, certificate_key: Path | None
) -> "Iterator[Listener | None]":
    """Yield the address for S3 clients, whose port is free; None without one."""
    from graveler.gateway.listener import Listener
    from graveler.server.listening import listening_port

    if port is None:
        yield None
        return
    with listening_port(host, port) as chosen:
        yield Listener(host=host, port=chosen, certificate=certificate, certificate_key=certificate_key)


def _s3_gateway(listener: "Listener", domains: Sequence[str]) -> "ServedGateway":
    """Return the gateway that each worker starts."""
    from graveler.gateway.served import DOMAINS, ServedGateway

    return ServedGateway(listener=listener, domains=tuple(domains or DOMAINS))


def _named(
    lake: Named,
    objects: str | None,
    tables: str | None,
    region: str | None,
    s3_endpoint_url: str | None,
    dynamodb_endpoint_url: str | None,
    cache: Path | None,
) -> Named:
    """Combine the options before the verb and after it; those after it win."""
    return Named(
        lake=lake.lake,
        tables=tables or lake.tables,
        objects=objects or lake.objects,
        region=region or lake.region,
        s3_endpoint_url=s3_endpoint_url or lake.s3_endpoint_url,
        dynamodb_endpoint_url=dynamodb_endpoint_url or lake.dynamodb_endpoint_url,
        cache=cache,
        profile=lake.profile,
        by_options=True,
    )


def _location(named: Named, *, create_table: bool) -> tuple[LakeLocation, bool]:
    """Return the lake's location, and whether it was created just now."""
    try:
        location = find_location(named)
    except NotFoundError:
        location = FolderLake(working_folder() / HIDDEN)
    if isinstance(location, AwsLake):
        return location, False
    if create_table:
        raise InvalidError(f"--create-table is for a lake on AWS, but {str(location)!r} is a folder; leave it out")
    folder = location.folder
    if lake_in(folder) is not None:
        return FolderLake(folder.absolute()), False
    if named.lake is None and os.environ.get(LAKE) is None and folder.exists():
        raise InvalidError(f"{str(folder)!r} exists but is not a lake; name one with --lake FOLDER")
    create_at(location).close()
    return FolderLake(folder.absolute()), True


def _name(location: LakeLocation) -> str:
    """Return the lake's location as text."""
    return location.objects if isinstance(location, AwsLake) else str(location)


def _for_workers() -> dict[str, str]:
    """Withdraw the secrets from this process's environment, which its children would show, and return those that workers need."""
    return {name: value for name, value in withdraw(os.environ).items() if name not in (KEY_ID, SECRET)}


def _table_role() -> str:
    """Return the role whose sessions are credentials for tables; empty: none. :class:`InvalidError` for what is no role."""
    role = os.environ.get(TABLE_ROLE, "")
    if role:
        from graveler.api.iceberg.session_policies import partition_of

        partition_of(role)
    return role


def _is_loopback(host: str) -> bool:
    """Return whether only processes of this machine reach the server."""
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _data_url(host: str, port: int) -> str:
    """Return another host name than the API's for the same machine: clients do not send credentials on to another host."""
    if host in ("127.0.0.1", "0.0.0.0", "::", "::1"):
        return f"http://localhost:{port}"
    if host == "localhost":
        return f"http://127.0.0.1:{port}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _welcome(
    screen: Screen, url: str, s3_url: str | None, lake: str, workers: int, key: "KeyWithSecret | None"
) -> Iterator[str]:
    processes = f"{workers} worker{'' if workers == 1 else 's'}"
    yield f"serving {screen.safe(lake)} at {screen.paint(url, 'bold')} with {processes}; press Ctrl-C to stop"
    if s3_url is not None:
        yield f"serving S3 clients at {screen.paint(s3_url, 'bold')}"
    if key is not None:
        yield "This is the first access key, shown only once. For lakectl, lakefs and lakefs-spec, run:"
        yield f"  export LAKECTL_SERVER_ENDPOINT_URL={url}"
        yield f"  export LAKECTL_CREDENTIALS_ACCESS_KEY_ID={key.key.key_id}"
        yield f"  export LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY={key.secret}"
