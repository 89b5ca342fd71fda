"""History: which states a lake has had, and what they are called.

Commits, branches, tags, the reference log, ref expressions and the questions asked of the commit graph. This room knows the
tables through their port, and nothing of objects, staged changes or trees. It reads, and it hands out the *writes* of a
transaction; executing them, together with what other rooms contribute, is the caller's.

=============  =====================================================================
names          which names repositories, branches and tags may have
commits        commit records and their IDs; where they are kept
refs           branches and tags: read, list, and the writes that change them
reflog         who moved which ref from where to where
expressions    ``main~2^2@``: from what a user writes to a commit
graph          merge base, first parents, log and origins
=============  =====================================================================
"""
