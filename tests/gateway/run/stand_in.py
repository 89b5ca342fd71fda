"""A gateway that puts, gets and lists objects, without signatures: until the real one is there."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from graveler.errors import ObjectNotFoundError
from graveler.gateway.control import Closing, Opening, Ready, Tally, Volume, line_of, read_document
from graveler.lake.context import Context
from graveler.lake.opening.location import FolderLake
from graveler.requests.staging import Upload
from graveler.sdk.lake import open_lake
from graveler.system.secret_variables import take_over


def main() -> None:
    take_over()
    opening = read_document(sys.stdin.buffer, Opening)
    assert opening is not None
    location = opening.lake.location
    assert isinstance(location, FolderLake)
    lake = open_lake(location.folder, user=opening.user)
    user = opening.user
    mounts = {mount.bucket: mount for mount in opening.mounts}
    closed = threading.Event()
    written: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            bucket, _, key = self.path[1:].partition("/")
            mount = mounts[bucket]
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if closed.is_set() or mount.read_only:
                self._answer(403)
                return
            path = key.removeprefix(mount.prefix)
            lake.verbs.repository(mount.repository).run(
                Upload(branch=mount.ref, path=path), Context(by=user, body=body)
            )
            written.append(len(body))
            self._answer(200)

        def do_GET(self) -> None:
            bucket, _, key = self.path[1:].partition("/")
            mount = mounts[bucket]
            reference = lake.repository(mount.repository).ref(mount.ref)
            try:
                with reference.object(key.removeprefix(mount.prefix)).reader() as reader:
                    self._answer(200, reader.read())
            except ObjectNotFoundError:
                self._answer(404)

    server = ThreadingHTTPServer(("127.0.0.1", opening.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.buffer.write(line_of(Ready(port=server.server_port)))
    sys.stdout.buffer.flush()
    while read_document(sys.stdin.buffer, Closing) is not None:
        closed.set()
        tally = Tally(written=Volume(objects=len(written), bytes=sum(written)))
        sys.stdout.buffer.write(line_of(tally))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
