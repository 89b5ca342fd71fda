"""A server of AWS Secrets Manager for other processes: moto's own answers, over HTTP, without what else moto's server needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        from moto.core.request import normalize_request
        from moto.secretsmanager.responses import SecretsManagerResponse

        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = f"http://{self.headers['host']}{self.path}"
        headers = HTTPHeaders()
        for name, value in self.headers.items():
            headers[name] = value
        request = normalize_request(AWSPreparedRequest("POST", url, headers, body, False))
        status, answered, text = SecretsManagerResponse.dispatch(request, url, request.headers)
        answer = text if isinstance(text, bytes) else text.encode()
        self.send_response(status)
        for name, value in answered.items():
            if name.lower() != "content-length":
                self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name for it
        """Nobody reads it."""


@contextmanager
def secrets_manager() -> Iterator[str]:
    """The URL of an empty one; it takes any credentials."""
    from moto.secretsmanager.models import secretsmanager_backends

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        secretsmanager_backends.reset()
