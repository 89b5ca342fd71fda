"""The access key of a server, where a job finds it: in a secret of AWS Secrets Manager.

The job's role reads the secret (``secretsmanager:GetSecretValue``), so no key stands in the definition of a step, in Spark's
configuration or in a log. The secret's text is the JSON that ``graveler keys create --json`` prints.
"""

from typing import Final

import boto3
import msgspec

from graveler.errors import InvalidError, NotFoundError
from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, Retries, error_code, explained, send

_MISSING: Final = "ResourceNotFoundException"


class _Kept(msgspec.Struct):
    """What of the secret's text is read; other fields do not count."""

    access_key_id: str
    secret_access_key: str


def access_key(name: str, region: str | None = None) -> tuple[str, str]:
    """ID and secret of the access key that the secret ``name`` holds, an ARN, or a name in ``region``.

    An ARN says the region itself; without both, AWS's configuration does. One request.
    :class:`NotFoundError`; :class:`InvalidError` if the secret is not such JSON, whose text no error shows;
    :class:`graveler.errors.UnavailableError` if the job's role may not read it.
    """
    what = f"reading secret {name!r}"
    parts = name.split(":")
    where = parts[3] if parts[0] == "arn" and len(parts) > 3 else region
    try:
        client = boto3.session.Session(region_name=region_of(where)).client("secretsmanager")
        answer = send(lambda: client.get_secret_value(SecretId=name), what, Retries())
    except FAILURES as error:
        if error_code(error) == _MISSING:
            raise NotFoundError(
                f"secret {name!r} is not there; see whether name, account and region are right"
            ) from error
        raise explained(error, what) from error
    try:
        kept = msgspec.json.decode(answer.get("SecretString", ""), type=_Kept)
    except msgspec.DecodeError:
        raise InvalidError(
            f"secret {name!r} holds no access key; keep in it what `graveler keys create NAME --json` prints: a JSON object "
            "with access_key_id and secret_access_key"
        ) from None
    return kept.access_key_id, kept.secret_access_key
