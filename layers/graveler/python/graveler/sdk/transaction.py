"""The handle on the hidden branch of a transaction."""

from collections.abc import Mapping

from graveler.files.repository import RepositoryAccess
from graveler.files.transaction import HiddenBranch
from graveler.sdk.writable import WritableReference


class Transaction(WritableReference, HiddenBranch):
    """The hidden branch of a transaction, inside its ``with`` block. Message, metadata and tag may be set until the
    block ends."""

    def __init__(
        self,
        repository: RepositoryAccess,
        branch_id: str,
        source_id: str,
        commit_message: str,
        commit_metadata: Mapping[str, str] | None,
        tag: str | None,
    ) -> None:
        WritableReference.__init__(self, repository, branch_id)
        HiddenBranch.__init__(self, branch_id, source_id, commit_message, commit_metadata, tag)
