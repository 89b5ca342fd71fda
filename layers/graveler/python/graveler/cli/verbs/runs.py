"""The verb that makes a program a transaction: run."""

import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from graveler.cli import completion
from graveler.cli.commands import SEPARATED
from graveler.cli.exits import report
from graveler.cli.interrupts import moving
from graveler.cli.locations import Named, find_lake, open_repository, user_name
from graveler.cli.options import LakeOption, Message, check_utf8, parse_metadata
from graveler.cli.progress import counting
from graveler.cli.terminal import Screen
from graveler.cli.uris import RefURI, expect_branch, parse_ref, parse_repository
from graveler.cli.values import commit_line, count
from graveler.errors import InvalidError, MergeConflictError, NotFoundError
from graveler.values.addresses import SCHEME, quote_ref, scheme_of, without_scheme

if TYPE_CHECKING:
    from graveler.gateway.control import Location, S3Place
    from graveler.gateway.run.folders.run_folders import RunFolders
    from graveler.gateway.run.job import Bucket, Program, RunEnd, Terms

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)


def run_(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="BRANCH",
            help="The branch that gets the commit: REPOSITORY/BRANCH, or its URI.",
            autocompletion=completion.branches,
        ),
    ],
    program: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="The program, and its arguments.")
    ],
    message: Message = "",
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", "--meta", metavar="KEY=VALUE", help="Metadata of the commit; repeatable."),
    ] = None,
    record_arguments: Annotated[
        bool, typer.Option("--record-arguments", help="Store the arguments in the commit; they may hold secrets.")
    ] = False,
    on_conflict: Annotated[
        Literal["source-wins", "dest-wins"] | None,
        typer.Option(
            "--on-conflict",
            help="Who wins if the program and BRANCH changed an object: the program is the source. [default: neither]",
        ),
    ] = None,
    retries: Annotated[
        int, typer.Option("--retries", min=0, metavar="N", help="After a conflict, run it again, at most N times.")
    ] = 0,
    once: Annotated[
        str | None,
        typer.Option("--once", metavar="ID", help="Do nothing if BRANCH has the commit of a run with this ID."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="If the program fails, keep what it wrote, to look at.")] = False,
    ref: Annotated[
        str | None, typer.Option("--ref", metavar="REF", help="Only read, a tag, a commit, or main@{1 hour ago}.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only read, the last commit of BRANCH.")] = False,
    bucket: Annotated[
        list[str] | None,
        typer.Option("--bucket", metavar="NAME[/PREFIX]", help="Another name of the bucket; repeatable."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--also", metavar="S3-URL", help="Another bucket of S3, s3://BUCKET[/PREFIX], to read; repeatable."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The gateway's port, 0 for any free one; see `gateway`.")
    ] = 0,
    own_keys: Annotated[
        bool, typer.Option("--own-keys", help="Leave the program its AWS keys, and accept these as the bucket's.")
    ] = False,
    folder: Annotated[
        list[str] | None,
        typer.Option(
            "--folder",
            metavar="FOLDER=PREFIX[:ro]",
            help="Files for programs that know only files: FOLDER is new or empty; repeatable.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing after a success.")] = False,
    lake: LakeOption = None,
) -> None:
    """Run a program whose writes become one commit, or none.

    The program finds the branch as a bucket of S3: the bucket's name is the repository's, and paths name no branch. The
    environment leads clients of S3 there (AWS_ENDPOINT_URL_S3, keys, …), so scripts stay as they are.

    It works on a hidden branch. If it ends with 0, that is committed and merged into BRANCH. If it fails, is killed or
    interrupted, BRANCH stays as it was. The exit code is the program's; 127 if there is no such program, 126 if it cannot be
    executed, 128 + N after signal N. If its writes cannot be published, the exit code is graveler's: 4 for a conflict; the
    message then names the hidden branch, which is kept.

    With --folder, a folder has the files of a prefix while the program runs, and what it changes there is published, too. :ro is
    for files that it only reads.

    \b
    Examples:
      graveler run sales/main -- python job.py
      graveler run sales/main -m "Nightly" --once 2026-11-28 -- ./load.sh
      graveler run sales/main --retries 3 -- aws s3 sync out s3://sales/out
      graveler run sales/main --bucket company-lake/warehouse -- dbt build
      graveler run sales/main --folder data=tables/events -- make -C data
      graveler run sales/main --ref v1 -- duckdb < report.sql
    """
    if not context.meta[SEPARATED]:
        raise InvalidError("write -- in front of the program, so that its options are its own: BRANCH -- PROGRAM")
    uri = _target(target, ref, read_only=read_only)
    check_utf8("--message", message)
    meta = parse_metadata(metadata, "--metadata")
    buckets = _buckets(bucket or [], uri.repository)
    places = _places(also or [], {uri.repository, *(bucket.name for bucket in buckets)})
    named = lake or Named(by_options=True)
    reads = read_only or ref is not None
    for_writers = {
        "--message": message,
        "--metadata": metadata,
        "--record-arguments": record_arguments,
        "--on-conflict": on_conflict,
        "--retries": retries,
        "--once": once is not None,
        "--keep": keep,
    }
    if reads and (option := next((name for name, value in for_writers.items() if value), "")):
        raise InvalidError(f"{option} is for a run that writes, and this one only reads; leave it out")

    from graveler.gateway.run.job import Program, run_reading, run_writing  # not for the help
    from graveler.gateway.run.supervision import ProgramNotStartedError

    location, user = find_lake(named), user_name()
    repository = open_repository(named, uri.repository)
    subject = Program(
        repository=uri.repository,
        arguments=tuple(program),
        buckets=buckets,
        also=places,
        keeps_keys=own_keys,
        port=port,
    )
    screen = Screen(sys.stderr)
    folders = _folders(folder or [], location, reads=reads, quiet=quiet)
    try:
        if reads:
            end = run_reading(repository, location, subject, uri.ref, user, folders)
            raise typer.Exit(end.exit_status)
        terms = _terms(
            uri.ref,
            subject,
            message,
            meta,
            on_conflict or "",
            once,
            with_arguments=record_arguments,
            retries=retries,
            keep=keep,
        )
        with moving(repository, uri.ref):
            end = run_writing(
                repository,
                location,
                subject,
                terms,
                user,
                lambda error: _say_again(screen, uri, error, quiet=quiet),
                folders,
            )
    except ProgramNotStartedError as error:
        report(error)
        raise typer.Exit(error.status) from None
    finally:
        for remaining in folders.remaining:
            screen.note(f"folder {screen.safe(str(remaining))} is left, with the files of this run")
    _say(screen, uri, end, quiet=quiet)
    raise typer.Exit(end.exit_status)


def gateway(
    join: Annotated[bool, typer.Option("--join", help="Join the run that GRAVELER_JOIN_TOKEN invites to.")] = False,
    source: Annotated[
        str | None,
        typer.Argument(metavar="[-]", help="Read the invitation from the first line of the standard input instead."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing.")] = False,
) -> None:
    """Serve the bucket of a run on another host, too.

    A program of `graveler run` may work on several hosts, such as a driver of Spark with its executors. The environment of
    the program has an invitation, GRAVELER_JOIN_TOKEN, which holds the run's keys: pass it on as a secret. With it, this
    command serves the same branch on 127.0.0.1 of its host, at the same port (`graveler run --port`) and for the same keys,
    with the rights that it has there.

    It ends with the run, a few seconds later at most, with SIGTERM, or with its standard input, if that is a pipe. If a
    gateway of the run serves on this host already, it waits, and takes its place once that has ended.

    \b
    Examples:
      graveler run sales/main --port 4780 -- spark-submit job.py
      graveler gateway --join &             on each other host
      graveler gateway --join - < invitation
    """
    if not join:
        raise InvalidError(
            "write `graveler gateway --join`, on a host where executors of a run work; `graveler run` starts its own"
        )
    if source not in (None, "-"):
        raise InvalidError(f"{source!r} is no source of an invitation; write - for the standard input, or nothing")

    from graveler.gateway.run.environment import JOIN
    from graveler.gateway.run.invitation import parse_invitation
    from graveler.gateway.run.joining import serve_joined

    text = sys.stdin.readline() if source else os.environ.get(JOIN, "")
    if not text.strip():
        raise NotFoundError(
            f"there is no invitation to a run; set {JOIN} to what the program of `graveler run` has there, or write it to the "
            "standard input of `graveler gateway --join -`"
        )
    opening = parse_invitation(text)
    screen = Screen(sys.stderr)
    place = screen.safe(f"{opening.mounts[0].repository}/{opening.mounts[0].ref}")

    def say(sentence: str) -> None:
        if not quiet:
            screen.note(sentence)

    serve_joined(
        opening,
        lambda: say(f"serving {place} at port {opening.port}"),
        lambda: say(f"a gateway of this run serves at port {opening.port} of this host; waiting to take its place"),
        with_input=source is None,
    )


def _target(target: str, ref: str | None, *, read_only: bool) -> RefURI:
    """Return the repository and what the program sees of it: a branch, or a ref that it reads."""
    text = target if scheme_of(target) or "/" not in target else f"{SCHEME}{target}"
    if ref is None:
        uri = parse_ref(text)
        return uri if read_only else RefURI(uri.repository, expect_branch(uri.repository, uri.ref))
    repository, slash, _ = without_scheme(text).rstrip("/").partition("/")
    return parse_ref(
        f"{SCHEME}{parse_ref(text).repository if slash else parse_repository(repository)}/{quote_ref(ref)}"
    )


def _terms(
    branch: str,
    program: "Program",
    message: str,
    metadata: dict[str, str],
    strategy: str,
    once: str | None,
    *,
    with_arguments: bool,
    retries: int,
    keep: bool,
) -> "Terms":
    from graveler.gateway.run.job import Terms, application_of_run
    from graveler.gateway.run.publication import Publication, program_name
    from graveler.model import MergeStrategies, MergeStrategy

    publication = Publication(
        branch=branch,
        message=message or f"Run {program_name(program.arguments[0])}",
        metadata=metadata,
        strategies=MergeStrategies(MergeStrategy(strategy)),
        application=None if once is None else application_of_run(once),
    )
    return Terms(publication=publication, with_arguments=with_arguments, retries=retries, keep=keep)


def _buckets(texts: list[str], repository: str) -> "tuple[Bucket, ...]":
    """Parse the further names of the bucket. :class:`InvalidError` for one that no bucket can have, or that stands twice."""
    from graveler.gateway.run.job import Bucket

    buckets: dict[str, Bucket] = {}
    for text in texts:
        name, _, prefix = check_utf8("--bucket", text).removeprefix("s3://").partition("/")
        if not _BUCKET.fullmatch(name):
            raise InvalidError(
                f"--bucket {text!r} names no bucket; write NAME or NAME/PREFIX, such as company-lake/raw"
            )
        if name == repository or name in buckets:
            raise InvalidError(f"--bucket names bucket {name!r} twice, or that of the repository; name each once")
        buckets[name] = Bucket(name, f"{prefix.strip('/')}/" if prefix.strip("/") else "")
    return tuple(buckets.values())


def _places(texts: list[str], names: set[str]) -> "tuple[S3Place, ...]":
    """Parse the places of S3 that are only read. :class:`InvalidError` for what is none, and for a bucket that has one of the
    ``names`` of the repository's."""
    from graveler.gateway.control import parse_s3_place

    places = tuple(parse_s3_place(check_utf8("--also", text)) for text in texts)
    if clash := next((place.bucket for place in places if place.bucket in names), ""):
        raise InvalidError(
            f"--also names bucket {clash!r}, which is the repository's bucket for this program; give that one another name"
        )
    return places


def _folders(texts: list[str], location: "Location", *, reads: bool, quiet: bool) -> "RunFolders":
    """Parse the folders. Those of a run that only reads are read-only."""
    from msgspec.structs import replace

    from graveler.gateway.run.folders.places import expect_apart, parse_folder
    from graveler.gateway.run.folders.run_folders import RunFolders

    places = [parse_folder(check_utf8("--folder", text)) for text in texts]
    places = [replace(place, read_only=place.read_only or reads) for place in places]
    expect_apart(places, location)
    return RunFolders(places, partial(counting, quiet=quiet))


def _say_again(screen: Screen, uri: RefURI, error: MergeConflictError, *, quiet: bool) -> None:
    if not quiet:
        conflicts = count(len(error.conflicts), "conflict")
        screen.note(f"{conflicts} with other changes of {screen.safe(uri.ref)}; running the program again")


def _say(screen: Screen, uri: RefURI, end: "RunEnd", *, quiet: bool) -> None:
    """Tell what a run came to, on stderr: the output is the program's."""
    branch = screen.safe(f"{uri.repository}/{uri.ref}")
    if end.program is None:
        assert end.commit is not None
        lines = [commit_line(screen, f"{branch} has this run already; the program was not run", end.commit)]
    elif end.exit_status:
        hint = f"; its work is kept: `graveler diff {uri} {end.hidden}` shows it" if end.hidden else ""
        screen.note(f"nothing was published: {_failure(end)}; {branch} is unchanged{hint}")
        return
    elif end.commit is None:
        lines = [f"nothing was published: the program changed nothing in {branch}"]
    else:
        lines = [commit_line(screen, f"published to {branch}", end.commit)]
    if not quiet:
        screen.note(*lines)


def _failure(end: "RunEnd") -> str:
    import signal

    program = end.program
    assert program is not None
    number = program.signal if program.signal is not None else program.status - 128
    if program.signal is not None or number in signal.valid_signals():
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"the program was ended by {name}" if program.status else f"the run was to end by {name}"
    return f"the program ended with {program.status}"
