"""A gateway for a block of a program, which configures its clients of S3 itself or starts other programs under it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NotRequired, TypedDict

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.gateway.control import KeyPair, LakePlace, Location, Mount, Opening, parse_s3_place
from graveler.gateway.run.environment import program_environment, url_of
from graveler.gateway.run.process import GatewayProcess, new_keys


class ClientOptions(TypedDict):
    """The keyword arguments of ``boto3.client("s3", ...)`` that lead to a gateway."""

    endpoint_url: str
    region_name: str
    aws_access_key_id: NotRequired[str]
    aws_secret_access_key: NotRequired[str]


class GatewayAccess(Struct, frozen=True):
    """The access to a gateway: its URL on this machine; the ``bucket`` with the objects of the ref; a pair of keys that
    end with the gateway, empty if clients sign by their own; and variables for programs that are to use it, as ``run(...,
    env=gateway.environment)``."""

    url: str
    bucket: str
    region: str
    access_key_id: str
    secret_access_key: str
    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"GatewayAccess({self.url!r}, bucket={self.bucket!r})"

    @property
    def client_options(self) -> ClientOptions:
        """The keyword arguments of ``boto3.client("s3", ...)``."""
        options: ClientOptions = {"endpoint_url": self.url, "region_name": self.region}
        if self.access_key_id:
            options["aws_access_key_id"] = self.access_key_id
            options["aws_secret_access_key"] = self.secret_access_key
        return options

    @property
    def storage_options(self) -> dict[str, str]:
        """The options that Polars, delta-rs and Lance take with a path, ``storage_options=...``."""
        options = {"aws_endpoint": self.url, "aws_region": self.region, "aws_allow_http": "true"}
        if self.access_key_id:
            options |= {"aws_access_key_id": self.access_key_id, "aws_secret_access_key": self.secret_access_key}
        return options


@contextmanager
def gateway_block(
    location: Location,
    repository: str,
    ref: str,
    by: str,
    *,
    read_only: bool = False,
    own_keys: bool = False,
    also: Sequence[str] = (),
) -> Iterator[GatewayAccess]:
    """Serve a ref by S3's protocol for a ``with`` block: a branch, or any ref if ``read_only``. The gateway is a process of its
    own, since a forked child would keep the port of a thread's. With ``own_keys`` its clients sign by the AWS credentials of this
    process. They may read the places ``also`` of S3, too.

    At the block's end, writes that run have ten seconds to land, and others are refused. :class:`UnavailableError` if the gateway
    cannot start, or has ended before the block.
    """
    keys = None if own_keys else new_keys()
    places = tuple(map(parse_s3_place, also))
    if repository in [place.bucket for place in places]:
        raise InvalidError(
            f"bucket {repository!r} is the repository's for these clients; they cannot read another one by that name"
        )
    mount = Mount(bucket=repository, repository=repository, ref=ref, read_only=read_only)
    opening = Opening(lake=LakePlace.of(location), mounts=(mount,), keys=keys, user=by, also=places)
    with GatewayProcess(opening) as gateway:
        port = gateway.ready()
        environment = program_environment(
            os.environ, port, keys, location, f"{repository}/{ref}", region=opening.region
        )
        pair = keys or KeyPair("", "")
        yield GatewayAccess(url_of(port), repository, opening.region, pair.id, pair.secret, environment)
        gateway.close()
