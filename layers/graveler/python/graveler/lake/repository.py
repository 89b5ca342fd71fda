"""One repository, open: a method for each verb that a user knows."""

from typing import TYPE_CHECKING

from graveler.lake.verbs.imports import ImportVerbs
from graveler.lake.verbs.staging import StagingVerbs

if TYPE_CHECKING:
    from graveler.lake.dump.chunks import Manifest
    from graveler.lake.fsck.findings import Progress as Phases
    from graveler.lake.fsck.findings import Report as FsckReport


class OpenRepository(StagingVerbs, ImportVerbs):
    """All verbs of a repository: what :class:`RepositoryReader` can be asked, and what changes it. Cheap to make; safe to share
    between threads.

    What changes a read-only repository is refused with :class:`ReadOnlyRepositoryError`, unless it is called with ``force``;
    what changes a protected branch directly, with :class:`ProtectedBranchError`, always. Both are :class:`ForbiddenError`, and
    judged by the settings as they are when the verb reads the branch, which costs no request.
    """

    def fsck(
        self,
        *,
        repair: bool = False,
        reflog: bool = True,
        committed_objects: bool = False,
        outside_objects: bool = False,
        object_bytes: bool = False,
        progress: "Phases | None" = None,
    ) -> "FsckReport":
        """Look at everything that the repository can reach, and say what is wrong and which paths of which refs it affects.

        See :func:`graveler.lake.fsck.check.fsck`. Cost: each reachable metarange and range once, the commits about 32 to a
        table read.
        """
        from graveler.lake.fsck.check import fsck  # not on the path of a cold start
        from graveler.lake.fsck.findings import no_progress

        return fsck(
            self._known,
            self._tables,
            self._objects,
            copies=self._copies,
            repair=repair,
            reflog=reflog,
            committed_objects=committed_objects,
            outside_objects=outside_objects,
            object_bytes=object_bytes,
            outside=self._outside,
            folder_permissions=self._folder_permissions,
            progress=progress or no_progress,
        )

    def dump(self, *, progress: "Phases | None" = None) -> "Manifest":
        """Write refs, settings and uncommitted changes into the object store, from where :meth:`Lake.restore` brings them back.
        See :func:`graveler.lake.dump.take.dump`."""
        from graveler.lake.dump.take import dump  # not on the path of a cold start
        from graveler.lake.fsck.findings import no_progress

        return dump(
            self.repository,
            self._tables,
            self._objects,
            self._clock,
            grace=self.grace,
            skew=self.skew,
            progress=progress or no_progress,
        )
