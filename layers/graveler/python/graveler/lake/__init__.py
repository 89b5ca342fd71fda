"""The use cases: one method for each user operation (verb), on top of history, staging, tree and storage.

Start at :class:`graveler.lake.lake.Lake`, which opens repositories, and :class:`graveler.lake.repository.OpenRepository`,
which has the verbs. Each verb's docstring states its cost in requests; a test counts them (law L5).
"""
