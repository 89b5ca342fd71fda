"""The whole life of a run: a hidden branch, a gateway that serves it, the program, and the publication.

The gateway starts while the branch is being created. Once the program has ended with 0, the gateway closes for writes; then the
branch is committed and merged. Any other end leaves the destination as it was.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import DirtyBranchError, GravelerError, InvalidError, MergeConflictError
from graveler.gateway.control import LakePlace, Location, Mount, Opening, S3Place, Tally, is_local
from graveler.gateway.run.environment import program_environment
from graveler.gateway.run.folders.run_folders import RunFolders
from graveler.gateway.run.invitation import invitation_text
from graveler.gateway.run.process import GatewayProcess, new_keys
from graveler.gateway.run.publication import Publication, described, publish
from graveler.gateway.run.supervision import ProgramEnd, run_to_end
from graveler.lake.refs.hidden_branch import hidden_branch, hidden_name
from graveler.lake.refs.run_destination import destination_text
from graveler.model import Application, Commit, Token

if TYPE_CHECKING:
    from graveler.lake.repository import OpenRepository
    from graveler.remote.any_repository import AnyRepository

_VERSION: Final = 1
"""The version of a numbered write whose application is a run's ID: each ID stands for one write."""


NO_FOLDERS: Final = RunFolders()
"""Of a run without folders."""


class Bucket(Struct, frozen=True):
    """A bucket that a program names: the key ``<prefix><path>`` is the object ``path``. The prefix is empty or ends with a
    slash."""

    name: str
    prefix: str = ""


class Program(Struct, frozen=True, kw_only=True):
    """A program with its ``arguments``, of which the first is its name, and what its gateway serves besides the bucket with the
    name of the ``repository``: further ``buckets`` of the same objects, and places in S3 that are only read (``also``). With
    ``keeps_keys``, the program has the AWS credentials of this process instead of a pair of its own. The gateway listens at
    ``port``; 0 stands for any free one."""

    repository: str
    arguments: tuple[str, ...]
    buckets: tuple[Bucket, ...] = ()
    also: tuple[S3Place, ...] = ()
    keeps_keys: bool = False
    port: int = 0


class Terms(Struct, frozen=True, kw_only=True):
    """The terms of a run that writes: its publication, and whether the commit names the program's arguments. A run whose merge
    conflicts is repeated with the whole program, at most ``retries`` times. ``keep``: a run that failed leaves its branch."""

    publication: Publication
    with_arguments: bool = False
    retries: int = 0
    keep: bool = False


class RunEnd(Struct, frozen=True, kw_only=True):
    """The end of a run: the program's, None if an earlier run had published it already; the ``commit`` that the destination got,
    None if there was nothing to publish; the ``hidden`` branch that a failure left, "" if none is left; what the gateway
    did, and the seconds that the program took."""

    program: ProgramEnd | None = None
    commit: Commit | None = None
    hidden: str = ""
    tally: Tally = Tally()
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """The exit status of the runner."""
        return 0 if self.program is None else self.program.exit_status


class ProgramFailedError(GravelerError):
    """The program of a run ended otherwise than with 0, or was asked to end."""

    def __init__(self, end: ProgramEnd) -> None:
        self.end = end
        super().__init__(f"the program ended with status {end.exit_status}; nothing was published")


def application_of_run(identity: str) -> Application:
    """Return the numbered write that a run with this ID is. :class:`InvalidError` for an impossible ID."""
    from graveler.lake.committing.applications import check_application  # for runs with an ID only

    if not identity:
        raise InvalidError("the ID of a run is empty; give the one that the orchestrator has for it")
    application = Application(f"graveler.run/{identity}", _VERSION)
    check_application(application)
    return application


def run_writing(
    repository: "AnyRepository",
    location: Location,
    program: Program,
    terms: Terms,
    by: str,
    on_conflict: Callable[[MergeConflictError], None],
    folders: RunFolders = NO_FOLDERS,
) -> RunEnd:
    """Run a program, and publish what it wrote, also in its ``folders``. ``on_conflict`` is called each time before the program
    runs again. Only in a main thread.

    Cost besides the program's requests: a read of the staged changes of the destination, which must have none; creating and
    deleting a branch, a commit and a merge; with an application one table read more. :class:`DirtyBranchError` before the program
    runs; :class:`graveler.gateway.run.supervision.ProgramNotStartedError`; :class:`UnavailableError` if the gateway cannot start,
    or ends before the program; the errors of :func:`graveler.gateway.run.publication.publish` and of :class:`RunFolders`.
    """
    publication = terms.publication
    if publication.application is not None:
        commit = repository.written_by(publication.branch, publication.application)
        if commit is not None:
            return RunEnd(commit=commit)
    if repository.uncommitted(publication.branch, amount=1).results:
        raise DirtyBranchError(publication.branch, "a run on it")  # or its merge would be refused, after all the work
    for remaining in reversed(range(terms.retries + 1)):
        try:
            return _attempt(repository, location, program, terms, by, folders, is_last=not remaining)
        except MergeConflictError as error:
            if not remaining:
                raise
            on_conflict(error)
    raise AssertionError("a run is tried once at least")


def run_reading(
    repository: "AnyRepository",
    location: Location,
    program: Program,
    ref: str,
    by: str,
    folders: RunFolders = NO_FOLDERS,
) -> RunEnd:
    """Run a program that only reads: the commit that ``ref`` names at the start, also in its ``folders``, which are read-only.
    Only in a main thread. Cost besides the program's requests: resolving the ref. Errors as of :func:`run_writing`;
    :class:`graveler.errors.RefNotFoundError`."""
    commit = repository.commit_of(ref)
    opening = _opening(location, program, commit.id, by, read_only=True)
    with folders.made(), GatewayProcess(opening) as gateway:
        folders.fill(repository, commit.id)
        end, seconds = _supervised(gateway, location, program, commit.id)
        if end.succeeded:
            folders.stage(repository, commit.id, Tally)
    return RunEnd(program=end, seconds=seconds)


def _attempt(
    repository: "AnyRepository",
    location: Location,
    program: Program,
    terms: Terms,
    by: str,
    folders: RunFolders,
    *,
    is_last: bool,
) -> RunEnd:
    """Run the program once, on a hidden branch of its own."""
    publication, hidden = terms.publication, hidden_name()
    opening = _opening(location, program, hidden, by)
    with folders.made(), GatewayProcess(opening) as gateway:  # it starts while the branch is created
        try:
            with hidden_branch(repository, publication.branch, by, name=hidden):
                folders.fill(repository, hidden)
                destination = destination_text(repository.identity, publication.branch)
                token = _open_token(repository, location, hidden)
                end, seconds = _supervised(gateway, location, program, hidden, destination, token)
                if not end.succeeded:
                    if terms.keep:
                        folders.stay()
                    gateway.end()  # the program's children may still write
                    failure = ProgramFailedError(end)
                    failure.kept = hidden if terms.keep else ""
                    raise failure
                tally = folders.stage(repository, hidden, gateway.close)
                metadata = described(program.arguments, seconds, tally, with_arguments=terms.with_arguments)
                final = replace(publication, metadata={**metadata, **publication.metadata})
                commit = publish(repository, hidden, final, by, keep_conflict=is_last, may_be_joined=bool(token))
        except ProgramFailedError as failure:
            return RunEnd(program=failure.end, hidden=failure.kept, seconds=seconds)
    return RunEnd(program=end, commit=commit, tally=tally, seconds=seconds)


def _opening(location: Location, program: Program, ref: str, by: str, *, read_only: bool = False) -> Opening:
    mounts = (
        Mount(bucket=bucket.name, repository=program.repository, ref=ref, prefix=bucket.prefix, read_only=read_only)
        for bucket in (Bucket(program.repository), *program.buckets)
    )
    return Opening(
        lake=LakePlace.of(location),
        mounts=tuple(mounts),
        keys=None if program.keeps_keys else new_keys(),
        user=by,
        also=program.also,
        port=program.port,
    )


def _open_token(repository: "AnyRepository", location: Location, hidden: str) -> Token:
    """Return the open token of the hidden branch, for gateways that join; "" for a lake behind a server, where none does. One
    table read."""
    if not is_local(location):
        return Token("")
    return cast("OpenRepository", repository).parts.branches.state(hidden).open


def _supervised(
    gateway: GatewayProcess, location: Location, program: Program, ref: str, destination: str = "", token: str = ""
) -> tuple[ProgramEnd, float]:
    """Run the program once the gateway is ready. Return its end, and the seconds that it took."""
    port = gateway.ready()
    environment = program_environment(
        os.environ,
        port,
        gateway.keys,
        location,
        f"{program.repository}/{ref}",
        region=gateway.region,
        destination=destination,
        invitation=invitation_text(replace(gateway.opening, port=port, token=token)) if is_local(location) else "",
    )
    start = time.monotonic()
    end = run_to_end(program.arguments, environment)
    return end, time.monotonic() - start
