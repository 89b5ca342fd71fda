"""The handle on a tag."""

from graveler import requests
from graveler.errors import AlreadyExistsError
from graveler.sdk.reference import Reference, ReferenceType, ref_of
from graveler.system.tracebacks import short_tracebacks


@short_tracebacks()
class Tag(Reference):
    """A permanent name for one commit."""

    def create(self, source_ref: ReferenceType, exist_ok: bool = False) -> "Tag":
        """Create the tag at the commit of ``source_ref``. With ``exist_ok``, leave an existing tag as it is.

        Cost: resolving the ref, one transaction. :class:`AlreadyExistsError`, :class:`InvalidError` for the name.
        """
        try:
            request = requests.refs.CreateTag(name=self._id, ref=ref_of(source_ref))
            self._access.repository.run(request, self._context)
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self

    def delete(self) -> None:
        """Remove the tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""
        self._access.repository.run(requests.refs.DeleteTag(name=self._id), self._context)
