"""A lake behind the HTTP API of ``graveler serve`` or a deployment, with the verbs of a local lake.

Start at :class:`graveler.remote.lake.RemoteLake`. ``connection`` sends requests and repeats them where that is safe; ``pools``
connects directly or through proxies; :mod:`graveler.wire` has the documents of the API; ``error_responses`` turns error
responses into the exceptions of :mod:`graveler.errors`; ``transfers`` moves the bytes of objects, by presigned URLs.
``background_operations`` waits for long-running work, and ``checks_and_dumps``, ``garbage_collection``, ``access_keys`` and
``ingest`` have the verbs outside a repository's own, with the names and values they have on a local lake. This package knows
nothing of how a lake is stored.
"""
