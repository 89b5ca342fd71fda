"""The local server: ``graveler serve``.

Several worker processes serve one lake over HTTP. A request below ``/api/v1`` becomes an event of API Gateway for
:class:`graveler.api.application.Application`, the same code that runs on Lambda (:mod:`graveler.server.events`). The server
itself serves presigned URLs of objects in folders, as S3 would (:mod:`graveler.server.data_plane`), and ``/healthcheck`` and
``/metrics``. The HTTP implementation is granian's; ``docs/design/0005-http-server.md`` says why.
"""
