"""A lake behind the HTTP API, of ``graveler serve`` or a deployment, with the verbs of a lake of one's own.

Start at :class:`graveler.remote.lake.RemoteLake`. ``connection`` sends requests and repeats them where that is safe; ``pools`` go
straight or through proxies; ``answers`` are the documents that come back; ``errors`` turns refusals into the exceptions of
:mod:`graveler.errors`; ``transfers`` carries the bytes of objects, by presigned URLs. ``operations`` waits for what takes
long, and ``upkeep``, ``garbage``, ``keys`` and ``ingest`` have the verbs beside those of a repository, with the names and values
that they have on a lake of one's own. Knows nothing of how a lake is stored.
"""
