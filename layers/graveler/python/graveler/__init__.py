"""graveler: Git for a data lake, without a server.

Branches that cost nothing, atomic commits, tags, diffs, merges and time travel over objects that stay where they are.
The rooms, from the top down: ``cli`` (faces), ``lake`` (use cases), ``history``, ``staging``, ``tree``, ``storage``,
and below them all the plain values (``model``) and the exception tree (``errors``).
"""

__version__ = "0.1.0"
