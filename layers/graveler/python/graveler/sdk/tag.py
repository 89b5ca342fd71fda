"""The handle on a tag."""

from graveler.errors import AlreadyExistsError
from graveler.sdk.reference import Reference, ReferenceType, ref_of
from graveler.sdk.tracebacks import short_tracebacks


@short_tracebacks()
class Tag(Reference):
    """A permanent name for one commit."""

    def create(self, source_ref: ReferenceType, exist_ok: bool = False) -> "Tag":
        """Create the tag at the commit of ``source_ref``. With ``exist_ok``, leave an existing tag as it is.

        Cost: resolving the ref, one transaction. :class:`AlreadyExistsError`, :class:`InvalidError` for the name.
        """
        try:
            self._repository.verbs.create_tag(self._id, ref_of(source_ref), by=self._repository.user)
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Remove the tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""
        self._repository.verbs.delete_tag(self._id, by=self._repository.user)
