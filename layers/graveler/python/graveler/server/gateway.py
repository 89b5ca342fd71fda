"""The WSGI application of a worker: decides who answers a request, and counts and logs it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from secrets import token_hex
from typing import Any, Final, Protocol

from graveler.server.answers import Answer, Headers, RequestError, json_error
from graveler.server.bodies import read_body
from graveler.server.data_plane import DataPlane
from graveler.server.events import Environ, answer_of, event_of, raw_path
from graveler.server.metrics import Metrics
from graveler.server.request_log import RequestLine, now, write_line
from graveler.server.settings import OBJECTS_PATH, ServerSettings

HEALTH: Final = ("/healthcheck", "/api/v1/healthcheck")
METRICS: Final = "/metrics"
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Application = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Answers events of API Gateway."""


class StartResponse(Protocol):
    """What WSGI hands over to begin an answer with."""

    def __call__(self, status: str, headers: Headers, /) -> object:
        """Begin the answer."""


class Gateway:
    """Answers HTTP requests; safe to be called by several threads at once."""

    def __init__(
        self, application: Application, data_plane: DataPlane, metrics: Metrics, settings: ServerSettings, worker: int
    ) -> None:
        self._application = application
        self._data_plane = data_plane
        self._metrics = metrics
        self._settings = settings
        self._worker = worker

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """One request."""
        began = time.perf_counter()
        path = raw_path(environ)
        request_id = token_hex(8)
        answer = self._answer(environ, path, request_id)
        status, headers = answer.status, answer.headers
        start_response(f"{status} ", headers)
        if isinstance(answer.body, bytes):
            self._note(environ, path, request_id, answer, began)
            return [answer.body]
        return _Noted(answer.body, lambda: self._note(environ, path, request_id, answer, began))

    def _answer(self, environ: Environ, path: str, request_id: str) -> Answer:
        method = environ["REQUEST_METHOD"]
        if path.startswith(f"{OBJECTS_PATH}/"):
            return self._data_plane(environ, path)
        if method in ("GET", "HEAD"):
            if path in HEALTH:
                return Answer(204, [], operation="healthCheck")
            if path == METRICS:
                text = self._metrics.text().encode()
                return Answer(200, [("content-type", _METRICS_TYPE)], text, "metrics")
        try:
            with read_body(environ, self._settings) as body:
                return answer_of(self._application(event_of(environ, path, body, request_id)), method)
        except RequestError as error:
            return json_error(error.status, error.message)

    def _note(self, environ: Environ, path: str, request_id: str, answer: Answer, began: float) -> None:
        seconds = time.perf_counter() - began
        self._metrics.note(answer.operation, answer.status, seconds)
        if self._settings.log_requests:
            write_line(
                RequestLine(
                    time=now(),
                    method=environ["REQUEST_METHOD"],
                    path=path,
                    query="" if path.startswith(f"{OBJECTS_PATH}/") else environ["QUERY_STRING"],
                    status=answer.status,
                    ms=round(seconds * 1000, 3),
                    operation=answer.operation,
                    source=environ["REMOTE_ADDR"],
                    agent=environ.get("HTTP_USER_AGENT", ""),
                    request_id=request_id,
                    worker=self._worker,
                )
            )


class _Noted:
    """Pieces of an answer, and what is to be done after the last one, or when the client has gone."""

    def __init__(self, inner: Iterable[bytes], done: Callable[[], None]) -> None:
        self._inner = inner
        self._done: Callable[[], None] | None = done

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._inner
        finally:
            self.close()

    def close(self) -> None:
        """Let go of what the pieces come from, once."""
        done, self._done = self._done, None
        if done is not None:
            close = getattr(self._inner, "close", None)
            if close is not None:
                close()
            done()
