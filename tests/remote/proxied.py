"""A real HTTP proxy that records its clients' requests. It resolves every host to this machine, so that names can be tested."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from urllib.parse import urlsplit

from tests.support.tuples import changed

_PIECE = 1 << 16


@dataclass
class Proxy:
    """``asked`` are the first lines of the requests, ``credentials`` what came with each of them."""

    url: str
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


@contextmanager
def proxying(port: int) -> Iterator[Proxy]:
    """Such a proxy, which takes everybody to this port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    threads: list[Thread] = []
    sockets: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed
                return
            sockets.append(client)
            threads.append(Thread(target=serve, args=(client,)))
            threads[-1].start()

    def serve(client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(_PIECE)
            if not piece:
                return
            head += piece
        first, _, rest = head.partition(b"\r\n")
        method, target, version = first.split(b" ")
        proxy.asked.append(f"{method.decode()} {target.decode()}")
        named = [line for line in rest.split(b"\r\n") if line.lower().startswith(b"proxy-authorization:")]
        proxy.credentials.append(named[0].partition(b":")[2].strip().decode() if named else "")
        server = socket.create_connection(("127.0.0.1", port))
        sockets.append(server)
        if method == b"CONNECT":
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target.decode())
            path = changed(parts, scheme="", netloc="").geturl().encode()
            server.sendall(b" ".join((method, path, version)) + b"\r\n" + rest)
        back = Thread(target=pump, args=(server, client))
        threads.append(back)
        back.start()
        pump(client, server)

    def pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while piece := one.recv(_PIECE):
                other.sendall(piece)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    accepting = Thread(target=accept)
    accepting.start()
    try:
        yield proxy
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listener.close()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in sockets:
            one.close()
