"""The key that seals a lake's secrets, wrapped by a key of AWS KMS: the table keeps the wrapped one, and KMS alone unwraps it.

The name of the lake's table is the encryption context, so a wrapped key is of use in its own table only, and IAM may grant just
that.
"""

from typing import Any, Final, Protocol

from graveler.errors import UnavailableError
from graveler.storage.aws_requests import FAILURES, error_code, explained, send, send_or_explain
from graveler.storage.secrets.keyring import SealingKeyLostError
from graveler.storage.tables.port import Item
from graveler.system.retries import Retries

CONTEXT: Final = "graveler:table"
_BY: Final = "kms"
_GONE: Final = frozenset(("NotFoundException", "InvalidCiphertextException", "IncorrectKeyException"))


class KmsClient(Protocol):
    """The methods used of botocore's client."""

    def generate_data_key(self, **request: Any) -> Any:
        """Return a new key, as it is and wrapped."""

    def decrypt(self, **request: Any) -> Any:
        """Return a wrapped key, unwrapped."""


class KmsKey:
    """The sealing key of the lake in ``table``, wrapped by the KMS key with this ARN."""

    def __init__(self, arn: str, table: str, client: KmsClient | None = None) -> None:
        self._arn = arn
        self._context = {CONTEXT: table}
        self._made = client

    def __repr__(self) -> str:
        return f"KmsKey({self._arn!r})"

    def make(self) -> tuple[bytes, Item]:
        """Return a new key, and its record with the wrapped one. One request (``kms:GenerateDataKey``).
        :class:`UnavailableError`."""
        subject = f"creating a sealing key with KMS key {self._arn!r}"
        response = send_or_explain(
            lambda: self._client().generate_data_key(
                KeyId=self._arn, KeySpec="AES_256", EncryptionContext=self._context
            ),
            subject,
            Retries(),
        )
        return response["Plaintext"], {"by": _BY, "key": self._arn, "wrapped": response["CiphertextBlob"]}

    def find(self, record: Item) -> bytes:
        """Return the key that the table has wrapped. One request (``kms:Decrypt``). :class:`SealingKeyLostError` if KMS has lost
        its key, :class:`UnavailableError`."""
        wrapped, by = record.get("wrapped"), record.get("key")
        if not isinstance(wrapped, bytes):
            raise UnavailableError(
                f"the lake's secrets were sealed with a key in a file, but KMS key {self._arn!r} was given; give that file "
                "instead"
            )
        if by != self._arn:
            raise SealingKeyLostError(
                f"KMS key {self._arn!r} was given, but {by!r} wrapped the lake's sealing key; give that one, or create new "
                "secrets with `graveler keys rotate-signing`"
            )
        subject = f"unwrapping the lake's sealing key with KMS key {self._arn!r}"
        try:
            response = send(
                lambda: self._client().decrypt(
                    KeyId=self._arn, CiphertextBlob=wrapped, EncryptionContext=self._context
                ),
                subject,
                Retries(),
            )
        except FAILURES as error:
            if error_code(error) in _GONE:
                raise SealingKeyLostError(
                    f"{subject}: that key is gone, or the table was renamed ({error_code(error)}); restore them, or create "
                    "new secrets with `graveler keys rotate-signing`"
                ) from error
            raise explained(error, subject) from error
        key: bytes = response["Plaintext"]
        return key

    def _client(self) -> KmsClient:
        if self._made is None:
            import boto3  # 300 ms, with a client
            from botocore.config import Config

            region = self._arn.split(":")[3] if self._arn.startswith("arn:") else None
            limits = Config(
                connect_timeout=2.0, read_timeout=5.0, retries={"mode": "standard", "total_max_attempts": 1}
            )
            client: KmsClient = boto3.session.Session(region_name=region).client("kms", config=limits)
            self._made = client
        return self._made
