"""History: the states that a lake has had, and their names.

Commits, branches, tags, the reference log, ref expressions and queries on the commit graph. This room knows the tables through
their port, and nothing of objects, staged changes or trees. It reads, and it returns the *writes* of a transaction; the caller
executes them, together with what other rooms contribute.

=============  =====================================================================
names          the names that repositories, branches and tags may have
commits        commit records and their IDs; where they are kept
refs           branches and tags: read, list, and the writes that change them
reflog         who moved which ref from where to where
expressions    ``main~2^2@``: from what a user writes to a commit
graph          merge base, first parents, log and origins
=============  =====================================================================
"""
