"""The sample data that a repository may start with: generated, the same each time, small enough for a request.

It resembles lakeFS's quickstart (a table ``lakes.parquet``, pictures, a text), so its tutorials can be followed here. The data is
fictitious: names and depths are random.
"""

from graveler.api.sample.contents import sample_files
from graveler.errors import NoChangesError
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.model import Actor
from graveler.requests.base import CommitInfo
from graveler.requests.committing import Commit
from graveler.requests.staging import Upload

__all__ = ["add_sample"]

MESSAGE = "Add sample data"


def add_sample(opened: OpenRepository, *, actor: Actor) -> None:
    """Upload the sample's files to the default branch, and commit them. Can be repeated after an interruption. Cost: 32 uploads,
    one after the other, and a commit."""
    branch = opened.repository.default_branch
    for file in sample_files(opened.repository.name, branch):
        request = Upload(branch=branch, path=file.path, content_type=file.content_type, force=True)
        opened.run(request, Context(by=actor.name, actor=actor, body=file.data))
    try:
        commit = Commit(branch=branch, info=CommitInfo(MESSAGE, actor.name), force=True)
        opened.run(commit, Context(by=actor.name, actor=actor))
    except NoChangesError:
        return  # it was committed, and the response was lost
