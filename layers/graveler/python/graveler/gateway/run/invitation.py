"""Invitations to a run, for gateways on other hosts. The program of the run has one in its environment; it holds the run's keys,
so it is a secret."""

import dataclasses
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from msgspec.structs import replace

from graveler import __version__
from graveler.errors import InvalidError, UnavailableError
from graveler.gateway.control import Invitation, LakePlace, Opening, line_of, parse_line
from graveler.gateway.run.environment import JOIN
from graveler.lake.opening.location import AwsLake
from graveler.location.environment import cache_folder
from graveler.storage.aws_configuration import region_of


def invitation_text(opening: Opening) -> str:
    """Return the text of the invitation to serve as ``opening`` says, which names the port. Region and endpoints of a lake on AWS
    are those of this process, wherever its environment names them."""
    location = opening.lake.aws
    if location is not None:
        s3, dynamodb, both = (os.environ.get(f"AWS_ENDPOINT_URL{service}") for service in ("_S3", "_DYNAMODB", ""))
        location = dataclasses.replace(
            location,
            region=region_of(location.region) or os.environ.get("AWS_DEFAULT_REGION") or None,
            s3_endpoint_url=location.s3_endpoint_url or s3 or both or None,
            dynamodb_endpoint_url=location.dynamodb_endpoint_url or dynamodb or both or None,
        )
        opening = replace(opening, lake=LakePlace.of(location))
    return urlsafe_b64encode(line_of(Invitation(version=__version__, opening=opening))).decode()


def parse_invitation(text: str) -> Opening:
    """Return what an invitation says. :class:`InvalidError` for what is none, or one of another version of graveler."""
    try:
        invitation = parse_line(urlsafe_b64decode(text.strip().encode()), Invitation)
        if invitation.opening.lake == LakePlace():
            raise ValueError("no lake")
    except (ValueError, UnavailableError):  # the text is a secret: it is not shown
        raise InvalidError(
            f"this is no invitation to a run; pass on the variable {JOIN} of the program of `graveler run`, as it is"
        ) from None
    if invitation.version != __version__:
        raise InvalidError(
            f"the run is one of graveler {invitation.version}, and this is {__version__}; install the same version on both hosts"
        )
    location = invitation.opening.lake.location
    if isinstance(location, AwsLake):  # the runner's files are those of its host and user
        cache = cache_folder() / location.cache.name
        location = dataclasses.replace(location, cache=cache, sealing_key_file=None)
        return replace(invitation.opening, lake=LakePlace.of(location))
    return invitation.opening
