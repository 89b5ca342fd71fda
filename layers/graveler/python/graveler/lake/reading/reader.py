"""The verbs of a repository that change nothing."""

from graveler.lake.reading.difference_reader import DifferenceReader
from graveler.lake.reading.object_reader import ByteReader


class RepositoryReader(ByteReader, DifferenceReader):
    """The reads of a repository. Cheap to make; safe to share between threads.

    Paths and refs are ``str``. A *ref* is a branch, a tag, a commit ID or the beginning of one, and any chain of ``~``, ``~N``,
    ``^``, ``^N`` behind it; a branch's name alone means the branch with its uncommitted changes, ``branch@`` without;
    ``branch@{N}`` is where it was before its last N moves, ``branch@{TIME}`` where it was at that time.

    The cost of each verb is given in requests: table reads and writes, object reads and writes. *Resolving* a ref is one table
    read for a branch, a tag or a whole ID, and for ``@{…}`` one for each thousand moves since; recently used commits and trees
    cost nothing, others one read each.
    """
