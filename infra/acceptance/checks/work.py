"""What takes longer than a request: merges, imports, ingest."""

from secrets import token_hex
from typing import Any, Final

from infra.acceptance.account import PART_RECORDS
from infra.acceptance.deployment import Deployment, expect

_API: Final = "/api/v1"
OBJECTS: Final = 5 * PART_RECORDS
_LINKS: Final = 1_000
_IMPORTED: Final = 25
_SECONDS: Final = 600
_LANDS_SECONDS: Final = 300


def long_merge(deployment: Deployment) -> str:
    """Two branches that changed thousands of objects each. The objects are only named: a merge reads none."""
    repo = deployment.repository("merge")
    base = f"{_API}/repositories/{repo.id}"
    _link(deployment, repo.id, "main", range(OBJECTS), "base")
    _done(deployment, "POST", f"{base}/branches/main/commits", {"message": "base"})
    repo.branch("dev").create(source_reference="main")
    for branch, first in (("main", 0), ("dev", 1)):
        _link(deployment, repo.id, branch, range(first, OBJECTS, 2), branch)
        _done(deployment, "POST", f"{base}/branches/{branch}/commits", {"message": branch})
    before = repo.branch("main").head.id
    merged = _done(deployment, "POST", f"{base}/refs/dev/merge/main", {"message": "merged"})
    operations = deployment.expect(200, "GET", f"{base}/operations").json()["results"]
    merges = [each for each in operations if each["kind"] == "merge"]
    expect(merges, f"the merge was no long operation: {operations}")
    changed = deployment.expect(200, "GET", f"{base}/refs/{before}/diff/main/summary", query={"type": "two_dot"}).json()
    total = OBJECTS // 2
    expect(f"{total}" in str(changed), f"the merge changed {changed}, not {total} objects")
    for number in (0, 1, OBJECTS - 2, OBJECTS - 1):
        query = {"path": _path(number)}
        stat = deployment.expect(200, "GET", f"{base}/refs/main/objects/stat", query=query).json()
        side = "dev" if number % 2 else "main"
        expect(f"/{side}/" in stat["physical_address"], f"{_path(number)} is {stat['physical_address']}")
    return f"{OBJECTS:,} objects, half of them changed on each side; commit {merged['reference'][:16]}, {len(merges)} operation"


def import_objects(deployment: Deployment) -> str:
    """From the bucket beside the stacks."""
    source = deployment.source
    s3 = deployment.aws("s3")
    for number in range(_IMPORTED):
        s3.put_object(Bucket=source, Key=f"tables/{number:02}.csv", Body=f"row {number}".encode())
    repo = deployment.repository("import")
    main = repo.branch("main")
    status = main.import_data("tables").prefix(f"s3://{source}/tables/", destination="in/").run()
    expect(status.completed and status.error is None, f"the import ended as {status}")
    paths = [entry.path for entry in main.objects(prefix="in/")]
    expect(paths == [f"in/{number:02}.csv" for number in range(_IMPORTED)], f"there are {paths}")
    expect(main.object("in/03.csv").reader(pre_sign=True).read() == b"row 3", "other bytes by a presigned URL")
    expect(main.object("in/03.csv").reader(pre_sign=False).read() == b"row 3", "other bytes through the function")
    refused = deployment.ask(
        "POST",
        f"{_API}/repositories",
        {"name": deployment.name_of("inside"), "storage_namespace": f"s3://{source}/inside"},
    )
    expect(refused.status in (400, 403), f"a repository in a bucket that may only be read: {refused.status}")
    return f"{len(paths)} objects, not copied; a repository in that bucket is refused"


def ingest(deployment: Deployment) -> str:
    """Objects land, one goes, a marker commits."""
    landing = deployment.outputs["LandingBucket"]
    repo = deployment.repository("landed")
    folder = f"{repo.id}/"
    rule = {
        "name": "all",
        "source": f"s3://{landing}/{folder}",
        "branch": "main",
        "destination": "raw/",
        "commit": {"marker": "_SUCCESS"},
    }
    deployment.expect(201, "POST", f"{_API}/repositories/{repo.id}/ingest/rules", rule)
    s3 = deployment.aws("s3")
    names = ["plain.csv", "with space + plus%2B.csv", "ä/ö,ü.csv"]
    for name in (*names, "gone.csv"):
        s3.put_object(Bucket=landing, Key=folder + name, Body=f"this is {name}".encode())
    s3.delete_object(Bucket=landing, Key=f"{folder}gone.csv")
    main = repo.branch("main")
    expected = sorted(f"raw/{name}" for name in names)

    def staged() -> bool:
        return sorted(entry.path for entry in main.objects()) == expected

    came = deployment.until(staged, "what landed on the branch", _LANDS_SECONDS)
    s3.put_object(Bucket=landing, Key=f"{folder}_SUCCESS", Body=b"")
    committed = deployment.until(lambda: len(list(main.log())) == 2, "the rule's commit", _LANDS_SECONDS)
    head = repo.ref(next(iter(main.log())).id)
    expect(sorted(entry.path for entry in head.objects()) == sorted([*expected, "raw/_SUCCESS"]), "other objects")
    read = head.object(f"raw/{names[1]}").reader(pre_sign=True).read()
    expect(read == f"this is {names[1]}".encode(), f"other bytes: {read!r}")
    return f"on the branch within {came:.1f} s, committed within {committed:.1f} s"


def _path(number: int) -> str:
    return f"part={number:07}/data.parquet"


def _link(deployment: Deployment, repository: str, branch: str, numbers: range, version: str) -> None:
    """Name objects by the thousand."""
    for first in range(0, len(numbers), _LINKS):
        links = [
            {
                "path": _path(number),
                "checksum": f"{number:032x}",
                "size_bytes": 1000,
                "staging": {"physical_address": f"s3://{deployment.source}/{repository}/{version}/{number}"},
            }
            for number in numbers[first : first + _LINKS]
        ]
        deployment.expect(
            200, "POST", f"{_API}/repositories/{repository}/branches/{branch}/staging/links", {"objects": links}
        )


def _done(deployment: Deployment, method: str, path: str, body: Any) -> Any:
    """The answer to what may take longer than a request: until then it is 429, and the same request joins the operation."""
    told: list[Any] = []
    headers = {"idempotency-key": token_hex(8)}

    def asked() -> bool:
        answer = deployment.ask(method, path, body, headers=headers)
        expect(answer.status in (200, 201, 429), f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        told.append(answer)
        return answer.status != 429

    deployment.until(asked, f"{method} {path}", _SECONDS)
    return told[-1].json()
