"""The addresses of servers of bytes, and of the proxies on the way to them."""

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """A server of bytes. ``base`` is the quoted path above its keys, without a slash at its end."""

    host: str
    port: int
    is_tls: bool
    base: str

    @property
    def authority(self) -> str:
        """The header ``host``."""
        standard = self.port == (443 if self.is_tls else 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if standard else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address for errors."""
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.base}"


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and the headers with which a client names itself to it."""

    host: str
    port: int
    is_tls: bool
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"
