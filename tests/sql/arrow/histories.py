"""Random histories, in lakes in memory and in any other."""

from hypothesis import strategies as st

from graveler.errors import NoChangesError
from graveler.lake.lake import Lake as LakeVerbs
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry, SplitParameters
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.tree.record import data_path

PATHS = [
    *(
        "a",
        "a/",
        "a/b",
        "a/b\0",
        "a0",
        "ab",
        "b",
        "b/\x7f",
        "b/é",
        "b/ê",
        "b/\ud7ff",
        "b/\ue000",
        "b/\U0010ffff",
        "c%_\\d",
    ),
    *(f"t/dt={day:02}/part-{part}" for day in range(4) for part in range(6)),
]

paths = st.sampled_from(PATHS)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@st.composite
def entries(draw: st.DrawFn) -> ObjectEntry:
    name = data_path(draw(st.binary(min_size=25, max_size=25)))
    return ObjectEntry(
        draw(paths),
        draw(st.sampled_from([f"mem://out/{name}", "mem://out/é"])),
        draw(st.sampled_from([0, 1, 255, 1 << 40])),
        draw(st.sampled_from(["00" * 16, "0123456789abcdef" * 2, "ABC", "etag-3", ""])),
        draw(st.sampled_from([0, 5, 1_700_000_000, (1 << 32) - 1, 1 << 33])),
        draw(st.sampled_from([DEFAULT_CONTENT_TYPE, "text/csv", ""])),
        draw(st.dictionaries(texts, texts, max_size=2)),
    )


steps = st.one_of(
    st.tuples(st.just("upload"), st.tuples(paths, st.binary(max_size=3), st.sampled_from(["", "text/csv"]))),
    st.tuples(st.just("link"), st.lists(entries(), min_size=1, max_size=12)),
    st.tuples(st.just("delete"), st.lists(paths, min_size=1, max_size=4)),
    st.tuples(st.just("commit"), texts),
    st.tuples(st.just("branch"), st.sampled_from(["dev", "b2"])),
    st.tuples(st.just("tag"), st.sampled_from(["v1", "v2"])),
    st.tuples(st.just("merge"), st.just("dev")),
)
histories = st.lists(steps, min_size=1, max_size=10)


def built(history: list[tuple[str, object]]) -> Repository:
    """Return a repository after these steps, with changes staged on ``main`` if the last steps stage some, and small ranges."""
    return built_lake(history).repository("demo")


def built_lake(history: list[tuple[str, object]]) -> Lake:
    """Return the lake of :func:`built`."""
    lake = Lake(LakeVerbs(MemoryTables(), MemoryObjects), "ada")
    build(lake, "demo", "mem://demo", history)
    return lake


def build(lake: Lake, name: str, namespace: str, history: list[tuple[str, object]]) -> Repository:
    """Create the repository of :func:`built` in an own lake."""
    lake.own.create_repository(name, namespace, split=SplitParameters(1, 400, 2))
    repository = lake.repository(name)
    main = repository.branch("main")
    for number, (kind, what) in enumerate(history):
        match kind, what:
            case "link", list():
                found = {entry.path: entry for entry in what}
                repository.own.link_many("main" if number % 3 else _dev(repository), found.values())
            case "upload", (str() as path, bytes() as content, str() as content_type):
                main.object(path).upload(content, content_type=content_type or None)
            case "delete", list():
                main.delete_objects(what)
            case "commit", str():
                for branch in ("main", "dev"):
                    _commit(repository, branch, what)
            case "branch", str():
                repository.branch(what).create("main", exist_ok=True)
            case "tag", str():
                if what not in {tag.id for tag in repository.tags()}:
                    repository.tag(what).create("main")
            case "merge", _:
                _commit(repository, "main", "before")
                _commit(repository, "dev", "before")
                if repository.ref("main").get_commit().id != repository.ref(_dev(repository)).get_commit().id:
                    repository.ref("dev").merge_into("main", strategy="source-wins", allow_empty=True)
    return repository


def _dev(repository: Repository) -> str:
    return repository.branch("dev").create("main", exist_ok=True).id


def _commit(repository: Repository, branch: str, message: str) -> None:
    if branch not in {found.id for found in repository.branches()}:
        return
    try:
        repository.branch(branch).commit(message)
    except NoChangesError:
        return
