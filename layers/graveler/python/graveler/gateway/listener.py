"""The address at which a gateway listens."""

from pathlib import Path

from msgspec import Struct


class Listener(Struct, frozen=True, kw_only=True):
    """The address of a gateway. With a certificate and its key, files in PEM, it speaks TLS."""

    host: str = "127.0.0.1"
    port: int
    certificate: Path | None = None
    certificate_key: Path | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
