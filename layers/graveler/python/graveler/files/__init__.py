"""An object as a file, and the lake and the repository that it is in: what the Python API and the fsspec filesystem share.

``lake`` is a lake with the user who changes it, ``shared_lake`` opens it again in other processes, and ``repository`` is one
repository, opened on first use. ``reader`` and ``writer`` are file objects; ``transaction`` makes changes on a hidden branch,
which is merged or deleted.
"""
