"""The JSON bodies of statuses."""

from typing import Literal

from msgspec import Struct

from graveler import model
from graveler.model import CommitID, StatusState


class Status(Struct, frozen=True):
    """A verdict about a tree (``of`` ``tree``), or about the commit ``commit_id`` alone. ``by`` is the name of its poster,
    ``principal`` what tells posters apart. ``created`` and ``expires`` (null: it has no end) are in Unix seconds."""

    name: str
    state: StatusState
    description: str
    url: str
    by: str
    principal: str
    created: int
    expires: int | None
    of: Literal["tree", "commit"]
    commit_id: str

    def value(self) -> model.Status:
        """Return it as a status of the lake."""
        return model.Status(
            self.name,
            self.state,
            self.description,
            self.url,
            by=self.by,
            principal=self.principal,
            created=self.created,
            expires=self.expires or 0,
            commit_id=CommitID(self.commit_id),
        )


class StatusList(Struct, frozen=True):
    """The statuses of a commit and of its tree that count, in the order in which they were posted."""

    results: list[Status]


def status_document(status: model.Status) -> Status:
    """Return the document of a status."""
    return Status(
        status.name,
        status.state,
        status.description,
        status.url,
        status.by,
        status.principal,
        status.created,
        status.expires or None,
        "commit" if status.commit_id else "tree",
        status.commit_id,
    )
