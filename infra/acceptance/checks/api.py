"""The front door: clients, keys, bodies, limits."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lakefs.exceptions import ConflictException

import graveler
from infra.acceptance.deployment import Deployment, expect

_API: Final = "/api/v1"
_LARGE: Final = 8 << 20
"""Bytes of an object that Lambda would not take: its payload has at most 6 MB."""
_AT_ONCE: Final = 50
_PAUSE_SECONDS: Final = 60


def published_client(deployment: Deployment) -> str:
    """A lake's story: upload, commit, branch, diff, merge, conflict, log, tag, old versions."""
    repo = deployment.repository("story")
    main = repo.branch("main")
    main.object("raw/a name, with everything?.txt").upload(data=b"through the function")
    main.object("raw/b.txt").upload(data=b"by a presigned URL", pre_sign=True)
    first = main.commit(message="first")
    dev = repo.branch("dev").create(source_reference="main")
    dev.object("raw/b.txt").upload(data=b"changed", pre_sign=True)
    dev.commit(message="second")
    changes = [(change.type, change.path) for change in main.diff(other_ref=dev)]
    expect(changes == [("changed", "raw/b.txt")], f"the diff is {changes}")
    merged = dev.merge_into(main)
    late = repo.branch("late").create(source_reference=first.id)
    late.object("raw/b.txt").upload(data=b"changed otherwise", pre_sign=True)
    late.commit(message="third")
    try:
        late.merge_into(main)
    except ConflictException:
        pass
    else:
        expect(False, "a merge of two changes of one path was no conflict")
    log = [commit.id for commit in main.log()]
    expect(log[0] == merged and first.id in log, f"the log is {log}")
    repo.tag("v1").create(first.id)
    for ref, content in (("v1", b"by a presigned URL"), ("main", b"changed")):
        for pre_sign in (True, False):
            read = repo.ref(ref).object("raw/b.txt").reader(pre_sign=pre_sign).read()
            expect(read == content, f"raw/b.txt at {ref} is {read!r}, pre_sign={pre_sign}")
    return f"{len(log)} commits, a conflict refused, 4 reads of 2 versions"


def answers(deployment: Deployment) -> str:
    """Those that no handler of an operation gives."""
    asked: tuple[tuple[str, str, bool, int], ...] = (
        ("GET", "/", False, 200),
        ("GET", "/openapi.json", False, 200),
        ("GET", f"{_API}/healthcheck", False, 204),
        ("GET", "/nothing", False, 404),
        ("GET", f"{_API}/nothing", False, 404),
        ("PATCH", f"{_API}/repositories", True, 405),
        ("GET", f"{_API}/auth/groups", True, 501),
        ("GET", f"{_API}/repositories", False, 401),
        ("POST", f"{_API}/setup_lakefs", False, 403),
    )
    for method, path, key, status in asked:
        body = {"username": "nobody"} if method == "POST" else None
        deployment.expect(status, method, path, body, key=key)
    return f"{len(asked)} answers"


def ranges(deployment: Deployment) -> str:
    """Parts of an object, by both ways."""
    repo = deployment.repository("ranges")
    content = bytes(range(256)) * 40
    repo.branch("main").object("data/bytes.bin").upload(data=content, pre_sign=True)
    path, query = f"{_API}/repositories/{repo.id}/refs/main/objects", {"path": "data/bytes.bin"}
    head = deployment.expect(200, "HEAD", path, query=query)
    expect(head.headers["content-length"] == str(len(content)), f"HEAD says {dict(head.headers)}")
    expect("etag" in head.headers, "HEAD tells no ETag")
    stat = deployment.expect(200, "GET", f"{path}/stat", query={**query, "presign": "true"}).json()
    url = stat["physical_address"]
    seen = 0
    for said, part in (
        ("bytes=10-299", content[10:300]),
        ("bytes=-7", content[-7:]),
        ("bytes=10000-", content[10000:]),
    ):
        through = deployment.expect(206, "GET", path, query=query, headers={"range": said})
        direct = deployment.fetch(url, {"range": said})
        expect(direct.status == 206, f"S3 answers {direct.status} to {said}: {direct.body[:200]!r}")
        expect(through.body == direct.body == part, f"{said} gives other bytes")
        seen += 2
    deployment.expect(416, "GET", path, query=query, headers={"range": "bytes=99999-"})
    return f"{seen} parts, and one that is not there"


def uploads(deployment: Deployment) -> str:
    """Bodies of all kinds."""
    repo = deployment.repository("uploads")
    main = repo.branch("main")
    path = f"{_API}/repositories/{repo.id}/branches/main/objects"
    texts = {"text/csv": "id,név\r\n1,Zoë €\n".encode(), "application/json": '{"a": "ü"}'.encode()}
    binary = bytes(range(256))
    refused = 0
    for kind, data in (
        *texts.items(),
        ("application/octet-stream", binary),
        ("image/png", binary),
        ("text/csv", binary),
    ):
        name = f"{kind.replace('/', '-')}-{len(data)}"
        answer = deployment.ask("POST", path, data=data, headers={"content-type": kind}, query={"path": name})
        if kind == "text/csv" and data == binary and answer.status == 400:
            refused += 1  # the gateway hands text over as text: what is none is refused, never changed
            expect(b"presign" in answer.body, f"the refusal does not say what to do: {answer.body[:300]!r}")
            expect(not main.object(name).exists(), "a refused upload left an object")
            continue
        expect(answer.status == 201, f"{kind}: {answer.status} {answer.body[:300]!r}")
        for pre_sign in (True, False):
            read = main.object(name).reader(mode="rb", pre_sign=pre_sign).read()
            expect(read == data, f"{kind}: {len(data)} bytes came back as others, pre_sign={pre_sign}")
    large = hashlib.sha256(b"large").digest() * (_LARGE // 32)
    main.object("large").upload(data=large, pre_sign=True)
    expect(main.object("large").reader(mode="rb", pre_sign=True).read() == large, "8 MiB came back as others")
    return f"5 kinds and 8 MiB; {refused} body that was called text and is none was refused"


def login(deployment: Deployment) -> str:
    """Whoever runs this, by the credentials that they deployed with."""
    arn: str = deployment.aws("sts").get_caller_identity()["Arn"]
    made = deployment.expect(
        201, "POST", f"{_API}/auth/principals", {"principal": _pattern(arn), "name": "acceptance"}
    ).json()
    name = deployment.repository("login").id
    try:
        with graveler.open(deployment.endpoint, login="aws") as lake:
            expect(lake.repository(name).branch("main").get_commit(), "nothing was read")
    finally:
        deployment.ask("DELETE", f"{_API}/auth/principals/{made['id']}")
    return "read a branch as the AWS principal that runs this"


def _pattern(arn: str) -> str:
    """A session's name changes; its role does not."""
    head, slash, _ = arn.rpartition("/")
    return f"{head}{slash}*" if ":assumed-role/" in arn else arn


def throttle(deployment: Deployment) -> str:
    """More at once than the operation's limit lets through."""

    def asked(_: int) -> int:
        return deployment.ask("GET", f"{_API}/config/version").status

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        statuses = list(threads.map(asked, range(_AT_ONCE)))
    expect(set(statuses) <= {200, 429}, f"answers {sorted(set(statuses))}")
    expect(429 in statuses, f"{_AT_ONCE} requests at once, and none was throttled")
    deployment.expect(200, "GET", f"{_API}/user")  # which has no limit of its own

    def passes() -> bool:
        return asked(0) == 200

    waited = deployment.until(passes, "an answer after the throttle", _PAUSE_SECONDS)
    return f"{statuses.count(429)} of {_AT_ONCE} told 429, the next answer after {waited:.1f} s"
