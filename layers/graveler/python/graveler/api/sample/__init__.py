"""The sample data that a repository may begin with: made by a program, the same each time, small enough for a request.

It looks like the field's own quickstart (a table ``lakes.parquet``, pictures, a text), so that what is written about that can be
followed here. Nobody's data: names and depths are drawn by lot.
"""

from graveler.api.sample.contents import sample_files
from graveler.errors import NoChangesError
from graveler.lake.repository import OpenRepository

__all__ = ["add_sample"]

MESSAGE = "Add sample data"


def add_sample(opened: OpenRepository, *, by: str) -> None:
    """Upload the sample's files to the default branch, and commit them. May be done again where it was cut off. Cost: 32 uploads,
    one after the other, and a commit."""
    branch = opened.repository.default_branch
    for file in sample_files(opened.repository.name, branch):
        opened.upload(branch, file.path, file.data, content_type=file.content_type, force=True)
    try:
        opened.commit(branch, MESSAGE, committer=by, force=True)
    except NoChangesError:
        return  # it was committed, and the answer was lost
