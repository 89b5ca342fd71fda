"""The local server: ``graveler serve``.

Several worker processes answer HTTP on one lake. What arrives below ``/api/v1`` becomes an event of API Gateway for
:class:`graveler.api.application.Application`, the same code that Lambda runs (:mod:`graveler.server.events`). Presigned URLs of
objects in folders are answered here, as S3 would (:mod:`graveler.server.data_plane`), and so are ``/healthcheck`` and
``/metrics``. The HTTP itself is granian's; ``docs/design/0005-http-server.md`` says why.
"""
