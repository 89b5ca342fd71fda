"""The address at which a gateway listens."""

from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext, TLSVersion

from msgspec import Struct

from graveler.errors import InvalidError


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

    def tls(self) -> SSLContext | None:
        """Return how the gateway speaks TLS; None if it does not. :class:`InvalidError` for files that are no certificate and its
        key."""
        if self.certificate is None:
            return None
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.minimum_version = TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(
                self.certificate, self.certificate_key, password=bytes
            )  # nobody is there to type one
        except OSError as error:  # SSLError too
            raise InvalidError(
                f"{str(self.certificate)!r} and {str(self.certificate_key)!r} are no certificate and its key: "
                f"{error.strerror or error}; give files in PEM that belong together"
            ) from None
        return context
