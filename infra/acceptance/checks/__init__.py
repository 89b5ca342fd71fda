"""What an acceptance run looks at, in the order in which it does."""

from collections.abc import Callable
from typing import Final, NamedTuple

from infra.acceptance.checks import api, operating, platform, spark, work
from infra.acceptance.deployment import Deployment


class Check(NamedTuple):
    """One check. ``about`` says what a pass shows; ``run`` gives a sentence on what was seen, and raises if it is not so.
    ``unemulated`` is why an emulator cannot show it; there it is not run."""

    name: str
    about: str
    run: Callable[[Deployment], str]
    unemulated: str = ""


CHECKS: Final = (
    Check(
        "published client",
        "the client of lakeFS works unmodified, presigned and through the functions",
        api.published_client,
    ),
    Check("answers", "pages, unknown paths, wrong methods and wrong keys are answered as promised", api.answers),
    Check("head and ranges", "HEAD, and parts of objects, through the gateway and from S3", api.ranges),
    Check("HEAD", "HEAD's Content-Length is the object's, for objects of any size", platform.head),
    Check(
        "routes",
        "the gateway has all routes, and how long it took to make them",
        platform.deployed_routes,
        "emulators have no quota for changes of a gateway",
    ),
    Check("uploads", "text and binary bodies arrive as they were sent, or are refused", api.uploads),
    Check(
        "login by AWS",
        "who has an AWS role or user needs no key",
        api.login,
        "the functions ask AWS's own STS, which knows no principals of emulators",
    ),
    Check(
        "throttle",
        "an operation's own limit holds, and clients get over it",
        api.throttle,
        "emulators let everything through",
    ),
    Check(
        "throttled function",
        "status and body for a function that does not start; graveler's client repeats it",
        platform.throttled_function,
        "emulators start every function",
    ),
    Check(
        "snapshot",
        "a function with SnapStart answers from restored copies, and how long a restore takes",
        platform.restored_function,
        "emulators take no snapshots",
    ),
    Check("long merge", "a merge of many objects becomes a long operation, and is the merge", work.long_merge),
    Check("import", "objects of a bucket that may only be read become a commit", work.import_objects),
    Check("ingest", "what lands in the bucket becomes a commit", work.ingest),
    Check("Spark", "a listing made by Spark is imported by Spark", spark.import_listing),
    Check("restore", "a table of an earlier moment, and objects deleted since, come back", operating.restore),
    Check("alarm", "an alarm tells those who listen to the topic", operating.alarm),
    Check(
        "quiet",
        "no alarm was raised by all of that",
        operating.quiet,
        "emulators evaluate no alarms",
    ),
)
