"""The access key of a server, for jobs: stored in a secret of AWS Secrets Manager.

The job's role reads the secret (``secretsmanager:GetSecretValue``), so no key appears in the definition of a step, in Spark's
configuration or in a log. The secret's text is the JSON that ``graveler keys create --json`` prints.
"""

import msgspec

from graveler.errors import InvalidError
from graveler.storage.secrets.aws import read_secret


class _Kept(msgspec.Struct):
    """The fields of the secret that are read; others are ignored."""

    access_key_id: str
    secret_access_key: str


def access_key(name: str, region: str | None = None) -> tuple[str, str]:
    """Return ID and secret of the access key in the secret ``name``, an ARN, or a name in ``region``.

    Cost and errors as :func:`graveler.storage.secrets.aws.read_secret`; :class:`InvalidError` if the secret is not such JSON. No
    error shows its text.
    """
    try:
        secret = msgspec.json.decode(read_secret(name, region), type=_Kept)
    except msgspec.DecodeError:
        raise InvalidError(
            f"secret {name!r} does not contain an access key; store the output of `graveler keys create NAME --json` in it: a "
            "JSON object with access_key_id and secret_access_key"
        ) from None
    return secret.access_key_id, secret.secret_access_key
