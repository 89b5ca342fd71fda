"""Runs of programs: all of their writes are published, or none."""

import os
import signal
from pathlib import Path

import pytest

import graveler
from tests.gateway.run.support import Place, is_alive, program


def sigint_and_others() -> list[signal.Signals]:
    return [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def test_a_program_that_succeeds_is_published(place: Place) -> None:
    end = place.run("sales/main", "--", *program('put("a", "one"); put("b/c", get("seed")); print(get("a"))'))
    assert (end.code, end.out) == (0, "one\n"), end.err
    assert "published to sales/main: " in end.err
    assert (place.read("a"), place.read("b/c")) == ("one", "1")
    commit = place.sales.branch("main").get_commit()
    assert commit.committer == "ada"
    assert commit.message == f"Run {Path(program('')[0]).name}"
    assert commit.metadata["graveler.run.written_objects"] == "2"
    assert commit.metadata["graveler.run.written_bytes"] == "4"
    assert float(commit.metadata["graveler.run.seconds"]) > 0
    assert not [value for value in commit.metadata.values() if "put(" in value]
    assert place.branches() == ["main"]


def test_message_metadata_and_arguments_are_recorded(place: Place) -> None:
    words = program('put("a", "one")')
    options = ("-m", "Nightly", "--metadata", "job=7", "--meta", "graveler.run.program=mine", "--record-arguments")
    assert place.run("lakefs://sales/main", *options, "--", *words).code == 0
    commit = place.sales.branch("main").get_commit()
    assert commit.message == "Nightly"
    assert commit.metadata["job"] == "7"
    assert commit.metadata["graveler.run.program"] == "mine"
    assert 'put("a"' in commit.metadata["graveler.run.arguments"]


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(3)", 3), ("raise SystemError", 1), ("os.kill(os.getpid(), 9)", 137)]
)
def test_a_program_that_fails_changes_nothing(place: Place, ending: str, code: int) -> None:
    end = place.run("sales/main", "--", *program(f'put("a", "one")\n{ending}'))
    assert end.code == code
    assert "sales/main is unchanged" in end.err
    assert not place.sales.branch("main").object("a").exists()
    assert place.branches() == ["main"]


def test_nothing_written_is_a_success_without_a_commit(place: Place) -> None:
    before = place.sales.branch("main").get_commit().id
    end = place.run("sales/main", "--", "true")
    assert (end.code, end.out) == (0, "")
    assert "the program changed nothing" in end.err
    assert place.sales.branch("main").get_commit().id == before
    assert place.branches() == ["main"]
    assert place.run("sales/main", "--quiet", "--", "true").err == ""


@pytest.mark.parametrize(("word", "code"), [("no-such-program", 127), (os.devnull, 126)])
def test_a_program_that_cannot_be_started(place: Place, word: str, code: int) -> None:
    end = place.run("sales/main", "--", word)
    assert end.code == code
    assert end.err.startswith(f"error: program {word!r} ")
    assert place.branches() == ["main"]


@pytest.mark.parametrize("number", sigint_and_others(), ids=lambda number: number.name)
def test_a_signal_ends_the_program_and_publishes_nothing(place: Place, number: signal.Signals) -> None:
    run = place.start(
        "sales/main",
        "--",
        *program('put("a", "one"); signal.signal(2, signal.SIG_DFL)\nprint("on", flush=True); time.sleep(60)'),
    )
    assert run.line() == "on"
    run.signal(number)
    end = run.end()
    assert end.code == 128 + number
    assert f"ended by {number.name}" in end.err
    assert not place.sales.branch("main").object("a").exists()
    assert place.branches() == ["main"]


def test_a_destination_with_uncommitted_changes_is_refused_before(place: Place, tmp_path: Path) -> None:
    place.sales.branch("main").object("x").upload("1")
    end = place.run("sales/main", "--", "touch", str(tmp_path / "ran"))
    assert end.code == 5
    assert "has uncommitted changes, so a run on it is refused" in end.err
    assert not (tmp_path / "ran").exists()


CONFLICTING = """
if not Path({marker!r}).exists():
    Path({marker!r}).touch()
    subprocess.run([sys.executable, "-m", "graveler", "put", {other!r}, "lakefs://sales/main/a"], check=True)
"""


def conflict(place: Place, text: str = "theirs") -> None:
    """Commit another version of ``a`` to main."""
    main = place.sales.branch("main")
    main.object("a").upload(text)
    main.commit("Theirs")


def test_a_conflict_is_ours_and_the_branch_is_kept(place: Place) -> None:
    run = place.start(
        "sales/main", "--", *program('put("a", "mine"); print("on", flush=True); sys.stdin.read()\ntime.sleep(1)')
    )
    assert run.line() == "on"
    conflict(place)
    end = run.end()
    assert end.code == 4
    hidden = next(name for name in place.branches() if name != "main")
    assert hidden in end.err
    assert place.read("a") == "theirs"
    with place.sales.branch(hidden).object("a").reader("r") as reader:
        assert reader.read() == "mine"


def test_a_conflict_with_retries_runs_the_program_again(place: Place) -> None:
    run = place.start(
        "sales/main", "--retries", "2", "--", *program('put("a", "mine"); print("on", flush=True)\ntime.sleep(1)')
    )
    assert run.line() == "on"
    conflict(place)
    end = run.end()
    assert (end.code, end.out) == (0, "on\n"), end.err
    assert "running the program again" in end.err
    assert place.read("a") == "mine"
    assert place.branches() == ["main"]


def test_a_conflict_is_decided_by_a_strategy(place: Place) -> None:
    words = program('put("a", "mine"); print("on", flush=True)\ntime.sleep(1)')
    run = place.start("sales/main", "--on-conflict", "source-wins", "--", *words)
    assert run.line() == "on"
    conflict(place)
    assert run.end().code == 0
    assert place.read("a") == "mine"


def test_a_run_with_an_id_lands_once(place: Place) -> None:
    words = ("sales/main", "--once", "2026-11-28", "--", *program('put("a", "one"); print("ran")'))
    assert place.run(*words).out == "ran\n"
    head = place.sales.branch("main").get_commit().id
    end = place.run(*words)
    assert (end.code, end.out) == (0, "")
    assert "has this run already" in end.err
    assert place.sales.branch("main").get_commit().id == head


def test_a_failed_run_is_kept_if_wanted(place: Place) -> None:
    end = place.run("sales/main", "--keep", "--", *program('put("a", "one"); sys.exit(3)'))
    assert end.code == 3
    hidden = next(name for name in place.branches() if name != "main")
    assert f"`graveler diff lakefs://sales/main {hidden}`" in end.err
    with place.sales.branch(hidden).object("a").reader("r") as reader:
        assert reader.read() == "one"


def test_a_bucket_has_further_names(place: Place) -> None:
    words = program('put("warehouse/a", "one", bucket="company-lake"); put("b", get("a"))')
    assert place.run("sales/main", "--bucket", "company-lake/warehouse", "--", *words).code == 0
    assert (place.read("a"), place.read("b")) == ("one", "one")


@pytest.mark.parametrize("options", [("--read-only",), ("--ref", "v1"), ("--ref", "main~0")])
def test_a_reader_sees_one_commit(place: Place, options: tuple[str, ...]) -> None:
    place.sales.tag("v1").create("main")
    text = """
print(get("seed"))
try:
    put("a", "one")
except Exception as error:
    print(error.response["ResponseMetadata"]["HTTPStatusCode"])
"""
    end = place.run("sales/main", *options, "--", *program(text))
    assert (end.code, end.out, end.err) == (0, "1\n403\n", "")
    assert place.run("sales/main", *options, "--", "sh", "-c", "exit 3").code == 3
    assert place.branches() == ["main"]


def test_the_command_line_of_the_program_works_on_the_hidden_branch(place: Place) -> None:
    words = program('put("a", "one"); subprocess.run([sys.executable, "-m", "graveler", "cp", "a", "b"], check=True)')
    end = place.run("sales/main", "--", *words)
    assert end.code == 0, end.err
    assert place.read("b") == "one"


PAST_THE_RUN = """
import fsspec, graveler
def refused(write):
    try:
        write()
    except Exception as error:
        print(type(error).__name__)
def put_file(url):
    with fsspec.open(url, "w") as file:
        file.write("1")
main = graveler.open().repository("sales").branch("main")
refused(lambda: put_file("graveler://sales/main/x"))
refused(lambda: main.object("x").upload("1"))
refused(lambda: main.commit("x", allow_empty=True))
refused(main.undo)
print(subprocess.run([sys.executable, "-m", "graveler", "rm", "lakefs://sales/main/seed"]).returncode)
main.object("seed").reader().read()
graveler.open().repository("sales").branch("dev").create("main").object("x").upload("1")
put_file("graveler://" + os.environ["GRAVELER_REPO"] + "/a")
"""


def test_a_write_to_the_destination_past_the_run_is_refused(place: Place) -> None:
    end = place.run("sales/main", "--", *program(PAST_THE_RUN))
    assert end.code == 0, end.err
    assert end.out.splitlines()[1:] == ["ForbiddenError", "ForbiddenError", "ForbiddenError", "6"]
    assert "is the destination of the run in which this program works" in end.err
    assert place.read("a") == "1"
    assert not place.sales.branch("main").object("x").exists()


def test_writes_of_children_after_the_end_are_refused(place: Place, tmp_path: Path) -> None:
    report = tmp_path / "report"
    child = f"""
if os.fork() == 0:
    put("early", "1")
    print("on", flush=True)
    os.close(1); os.close(2)
    while True:
        try:
            put("late", "1")
        except Exception as error:
            Path({str(report)!r}).write_text(type(error).__name__)
            os.kill(os.getpid(), 9)
else:
    time.sleep(1)
"""
    end = place.run("sales/main", "--", *program(child))
    assert end.code == 0
    assert place.read("early") == "1"
    for _ in range(200):
        if report.exists():
            break
        signal.sigtimedwait([], 0.1)
    assert report.exists()
    assert place.branches() == ["main"]


def gateway_of(pid: int) -> int:
    """The process of a runner's gateway."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(child) for child in children if b"graveler.gateway" in Path(f"/proc/{child}/cmdline").read_bytes())


def test_a_killed_gateway_publishes_nothing(place: Place) -> None:
    run = place.start("sales/main", "--", *program('put("a", "one"); print("on", flush=True); time.sleep(1)'))
    assert run.line() == "on"
    os.kill(gateway_of(run.process.pid), signal.SIGKILL)
    end = run.end()
    assert end.code == 9
    assert "the gateway of this run has ended unexpectedly, by signal 9" in end.err
    assert not place.sales.branch("main").object("a").exists()
    assert place.branches() == ["main"]


def test_a_killed_runner_leaves_a_branch_with_a_lease_and_no_gateway(place: Place) -> None:
    words = program('put("a", "one"); print("on", flush=True)\nwhile True: time.sleep(1); get("a")')
    run = place.start("sales/main", "--", *words)
    assert run.line() == "on"
    gateway = gateway_of(run.process.pid)
    run.signal(signal.SIGKILL)
    end = run.end()  # the program ends, too: it holds the other ends of these pipes
    assert end.code == -9
    assert "EndpointConnectionError" in end.err or "ConnectionClosedError" in end.err
    assert not is_alive(gateway)
    assert len(place.branches()) == 2
    with graveler.open(place.folder) as lake:
        leases = lake.verbs.repository("sales").parts.branches.owners.all()  # type: ignore[union-attr]
    assert [lease.branch for lease in leases] == [name for name in place.branches() if name != "main"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sales/main", "true"), "write -- in front of the program"),
        (("sales/main~1", "--", "true"), "is no branch"),
        (("sales/main", "--bucket", "a b", "--", "true"), "names no bucket"),
        (("sales/main", "--bucket", "sales/x", "--", "true"), "twice"),
        (("sales/main", "--bucket", "lake", "--also", "s3://lake", "--", "true"), "which is the repository's bucket"),
        (("sales/main", "--once", "", "--", "true"), "the ID of a run is empty"),
        (("sales/main", "--metadata", "x", "--", "true"), "--metadata 'x'"),
        (("sales/main", "--read-only", "--keep", "--", "true"), "--keep is for a run that writes"),
        (("sales/main", "--ref", "v1", "--once", "", "--", "true"), "--once is for a run that writes"),
    ],
)
def test_wrong_words_are_refused(place: Place, words: tuple[str, ...], sentence: str) -> None:
    end = place.run(*words)
    assert end.code == 2
    assert sentence in end.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing/main", "--", "true"), "nothing"),
        (("sales/nothing", "--", "true"), "nothing"),
        (("sales/main", "--ref", "nothing", "--", "true"), "nothing"),
    ],
)
def test_what_is_not_there_is_named(place: Place, words: tuple[str, ...], sentence: str) -> None:
    end = place.run(*words)
    assert end.code == 3
    assert sentence in end.err


PENDING = """
upload = s3.create_multipart_upload(Bucket="sales", Key="large")["UploadId"]
s3.upload_part(Bucket="sales", Key="large", UploadId=upload, PartNumber=1, Body=b"1")
put("a", "one")
(folder,) = Path({folder!r}).rglob("????????-" + 32 * "[0-9a-z]")
(folder.with_name(folder.name + "-aborted") / "in the way").mkdir(parents=True)
"""


def test_uploads_that_cannot_be_aborted_do_not_hold_up_the_rest(place: Place) -> None:
    end = place.run("sales/main", "--", *program(PENDING.format(folder=str(place.folder))))
    assert end.code == 0, end.err
    assert "uploads that are not complete were not aborted" in end.err
    assert place.read("a") == "one"
