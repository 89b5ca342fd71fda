"""Settings of a deployment, with their defaults and the checks of their values."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.check_settings import SECRET, Checks
from infra.emr import DEFAULT_QUOTA, DRIVER_CPUS, RELEASES, TESTED_RELEASE, executors_of_a_job

PREFIX: Final = "graveler"
DEPLOYMENTS: Final = Path(__file__).resolve().parent.parent / "deployments"
"""Folder of the settings files. Git ignores it: they belong to accounts, not to the project."""
DEPLOYMENT: Final = "deployment"
"""Context value that names the settings file: its name in :data:`DEPLOYMENTS` without ``.json``, a path that ends in ``.json``,
or ``none`` to read no file."""
CONFIRM: Final = "confirm"
"""Context value that names the settings, with commas, whose differences from the deployed ones are meant."""
ARCHITECTURES: Final = ("arm64", "x86_64")
TAG: Final = "graveler"
"""Of all resources; its value is the name of the deployment."""
SETTING_TAG: Final = "graveler-setting"
"""Of what outlives its deployment; its value is the name of the setting by which a later deployment adopts it."""
REMOVALS: Final = ("retain", "destroy")

NEW_TABLE_READS: Final = 12_000
NEW_TABLE_WRITES: Final = 4_000
"""Units a second that a new table on demand takes:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html"""


class SettingsError(ValueError):
    """A value cannot be used; says which, and what would do."""


@dataclass(frozen=True)
class SparkJob:
    """A Spark job by the clock: a module of graveler.spark.jobs, its arguments, and what of the API is called when it is done."""

    schedule: str
    """``cron(…)`` or ``rate(…)``, as EventBridge has them, UTC."""
    job: str
    arguments: tuple[str, ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    """Each with ``method``, ``path`` (behind ``/api/v1``) and ``body``."""


@dataclass(frozen=True)
class Settings:
    """All parameters. docs/deploy.md has a table of them."""

    name: str = "graveler"
    """Begins the names of the stacks; several deployments of one account differ in it."""
    architecture: str = "arm64"
    removal: str = "retain"
    """What becomes of bucket, table and logs when their stack is deleted: ``retain``, or ``destroy`` for experiments."""
    bucket: str = ""
    """Name of an existing bucket for objects and trees. Without it, the stateful stack creates one."""
    landing_bucket: str = ""
    """Name of an existing bucket for what is to be ingested. Without it, the stateful stack creates one."""
    table: str = ""
    """Name of an existing table that the lake is in: one that was restored to a moment, beside the stack's own; or, with
    ``sealing_key``, one that an earlier deployment left, and then the stack creates none."""
    sealing_key: str = ""
    """ARN of the KMS key that wrapped the sealing key of ``table``. Without it, the stateful stack creates a key."""
    first_key: str = ""
    """ARN of the secret in which the first access key of ``table`` is. Without it, the stateful stack creates a secret."""
    data_buckets: tuple[str, ...] = ()
    """More buckets, or folders in them (``bucket/folder/``): repositories may have their namespaces there, and imports may come
    from there."""
    import_buckets: tuple[str, ...] = ()
    """Buckets, or folders in them, from which imports may come; they are only read."""
    ingest: bool = True
    """What makes commits of what lands in buckets: the deployment's own one for that (``LandingBucket``), and others."""
    ingest_buckets: tuple[str, ...] = ()
    """More buckets to ingest from. Each one's owner lets it send its events to EventBridge."""
    presign_seconds: int = 900
    """How long a presigned URL lives; a role's credentials may end it earlier."""
    cors_origins: tuple[str, ...] = ()
    """Web pages that may call the API, such as ``https://example.org``."""
    staging_shards: int = 8
    """Partitions of the table over which the uncommitted changes of a branch are spread; each takes 1,000 writes a second."""
    warm_reads: int = 0
    """Read units a second that the table takes at once; 0 leaves what a new table has: 12,000."""
    warm_writes: int = 0
    """Write units a second; 0 leaves 4,000."""
    request_records: int = 1_000_000
    """How many records a commit or merge may read in its request; more make it a long operation."""
    part_records: int = 500_000
    """How many records a part of a long operation reads; more take longer, and more memory."""
    parts_at_once: int = 40
    """Parts of a long operation that are worked on at the same time, each by a function."""
    spark: bool = False
    """Spark jobs on EMR Serverless, and the flow that runs them."""
    spark_release: str = TESTED_RELEASE
    """The release of EMR that jobs run on, one of :data:`infra.emr.RELEASES`."""
    spark_package: str = ""
    """Folder with the package of Spark jobs that ``make spark-package`` built. Without one, the deployment builds it."""
    spark_cpus: int = DEFAULT_QUOTA
    """How many virtual processors all Spark jobs may have together; no more than the account's quota."""
    spark_jobs_at_once: int = 1
    """How many Spark jobs run at once, each with its share of the processors; others wait."""
    spark_executor_cpus: int = 4
    """Virtual processors of each executor."""
    spark_executor_memory: int = 14
    """GB of each executor's heap. EMR adds a tenth, and rounds up to the sizes of its workers."""
    spark_executor_disk: int = 20
    """GB of each executor's disk, for shuffles and spills; 20 cost nothing."""
    encryption_key: str = ""
    """Which KMS key encrypts the deployment's own buckets, table and queues: the ARN of one of the account's, or ``own`` for one
    that is made. Without it, keys of AWS's own do."""
    former_encryption_keys: tuple[str, ...] = ()
    """Earlier values of ``encryption_key``: what they encrypted can still be read. ``own`` keeps the key that the deployment
    made."""
    kms_keys: tuple[str, ...] = ()
    """ARNs of the customer's own keys, by which buckets that Spark jobs read or write are encrypted."""
    spark_jobs: Mapping[str, "SparkJob"] = field(default_factory=dict)
    """Jobs by the clock, by names of letters and digits."""
    api_connection: str = ""
    """The ARN of an EventBridge connection with an access key: flows of Spark jobs call the API by it."""
    checks: Checks = field(default_factory=Checks)
    """What rules may name in their checks: functions of Lambda, secrets of webhooks, private hosts."""
    check_function: bool = False
    """A function of its own for checks that take long: queries by DuckDB, and functions that rules name."""
    check_memory: int = 3008
    """MiB of that function, the most that a new account may have."""
    check_scratch: int = 2048
    """MiB of its /tmp, where the files of a query are copied."""
    table_credentials: bool = False
    """A role whose credentials the catalog of Iceberg tables gives to its clients, for the files of one table each."""
    aws_login: tuple[str, ...] = ()
    """Names that clients sign to log in by AWS, as whoever rules let in; ``endpoint`` is the API's own host name."""
    domain: str = ""
    """Name under which the API answers besides its own, such as ``lake.example.org``. It stays when the stack is made anew."""
    certificate: str = ""
    """ARN of the certificate for ``domain``, of AWS Certificate Manager, in the deployment's region, or with ``web_acl`` in
    us-east-1."""
    hosted_zone: str = ""
    """ID of the zone of Route 53 in which ``domain`` gets its records; without it, their maker is told what they lead to."""
    only_domain: bool = False
    """Whether the API's own name answers no more."""
    web_acl: str = ""
    """ARN of a web ACL of AWS WAF for CloudFront; ``domain`` then leads to a distribution that it protects."""
    front_door_key: int = 1
    """Which secret CloudFront adds to requests; functions take it and the one before. One more is another secret."""
    requests_per_second: int = 1000
    burst: int = 2000
    throttles: tuple[str, ...] = ()
    """Lower limits for single operations of the API: ``operation=requests a second/burst``, such as ``mergeIntoBranch=20/40``."""
    memory: int = 1769
    """MiB of each function; 1,769 are one whole core."""
    scratch: int = 512
    """MiB in /tmp, where files of trees are kept near."""
    snap_start: tuple[str, ...] = ()
    """Functions that start from a snapshot of their initialised process; each costs by the month, and by the start."""
    provisioned: tuple[str, ...] = ()
    """Functions of which some processes are always kept ready: ``function=processes``, such as ``read=2``."""
    shared_cache: bool = False
    """A file system (EFS), in a network of its own, where all functions keep files of trees together."""
    permissions_boundary: str = ""
    """ARN of a managed policy that bounds what any role of the stacks may do."""
    reserved_concurrency: int = 0
    """How many copies of each function may run at once; 0 reserves nothing, as new accounts have little to reserve from."""
    paused: bool = False
    """Whether nothing works on queues and nothing runs by the clock, and the API answers 503 to what may write: for the time in
    which the table is replaced."""
    log_days: int = 30
    tracing: bool = False
    """Lambda's own tracing by X-Ray."""
    alarm_email: str = ""
    """Who gets the alarms. Without it they only change colour."""
    monthly_budget: int = 0
    """US dollars of what has the tag ``graveler`` of this deployment, after which the topic of the alarms says so; 0 for none.
    Until somebody has activated the tag for cost allocation, the budget counts nothing."""

    def __post_init__(self) -> None:
        _check("architecture", self.architecture, ARCHITECTURES)
        _check("removal", self.removal, REMOVALS)
        _check("spark_release", self.spark_release, tuple(RELEASES))
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", self.name):
            raise SettingsError(f"name {self.name!r} must be 1 to 20 small letters, digits and hyphens, a letter first")
        if self.table and not re.fullmatch(r"[a-zA-Z0-9_.-]{3,255}", self.table):
            raise SettingsError(f"table {self.table!r} must be the name of a table: 3 to 255 letters, digits, _ . -")
        self._check_adopted()
        if self.ingest_buckets and not self.ingest:
            raise SettingsError("ingest_buckets are named, but ingest is false; leave one of them out")
        if self.spark_jobs and not self.spark:
            raise SettingsError("spark_jobs are named, but spark is false; leave one of them out")
        if self.api_connection and not _CONNECTION.fullmatch(self.api_connection):
            raise SettingsError(
                f"api_connection {self.api_connection!r} must be the ARN of a connection of EventBridge"
            )
        for name, job in self.spark_jobs.items():
            _check_job(name, job, calls=bool(self.api_connection))
        for name, low, high in (
            ("presign_seconds", 60, 43_200),
            ("staging_shards", 1, 64),
            ("request_records", 1, 100_000_000),
            ("part_records", 1, 10_000_000),
            ("parts_at_once", 1, 1_000),
            ("spark_cpus", 4, 10_000),
            ("spark_jobs_at_once", 1, 1_000),
            ("front_door_key", 1, 1_000),
            ("requests_per_second", 1, 100_000),
            ("burst", 1, 100_000),
            ("memory", 512, 10_240),
            ("scratch", 512, 10_240),
            ("check_memory", 1_024, 10_240),
            ("check_scratch", 1_024, 10_240),
            ("reserved_concurrency", 0, 10_000),
            ("monthly_budget", 0, 1_000_000),
        ):
            if not low <= getattr(self, name) <= high:
                raise SettingsError(f"{name} {getattr(self, name)} must be {low} to {high}")
        for name, new_table in (("warm_reads", NEW_TABLE_READS), ("warm_writes", NEW_TABLE_WRITES)):
            if getattr(self, name) and not new_table <= getattr(self, name) <= 10_000_000:
                raise SettingsError(
                    f"{name} {getattr(self, name)} must be {new_table:,} to 10,000,000, or 0: a new table takes that many anyhow"
                )
        self._check_executors()
        self._check_checks()
        self._check_buckets()
        if self.encryption_key not in ("", OWN_KEY) and not _KEY.fullmatch(self.encryption_key):
            raise SettingsError(
                f"encryption_key {self.encryption_key!r} must be {OWN_KEY}, or the ARN of a key, not of an alias: "
                "arn:aws:kms:…:key/…"
            )
        self._check_former_keys()
        if self.permissions_boundary and not _POLICY.fullmatch(self.permissions_boundary):
            raise SettingsError(
                f"permissions_boundary {self.permissions_boundary!r} must be the ARN of a managed policy: arn:aws:iam::…:policy/…"
            )
        for key in self.kms_keys:
            if not _KEY.fullmatch(key):
                raise SettingsError(f"kms_keys: {key!r} must be the ARN of a key, not of an alias: arn:aws:kms:…:key/…")
        if len(self.kms_keys) > _KMS_KEYS:
            raise SettingsError(f"kms_keys names more than {_KMS_KEYS} keys")
        self._check_concurrency()
        self._check_domain()
        self.throttled()
        self._check_starts()
        if len(self.aws_login) > _LOGIN_NAMES or not all(
            re.fullmatch(r"[!-+\--~]{1,256}", name) for name in self.aws_login
        ):
            raise SettingsError(
                f"aws_login {', '.join(self.aws_login)} must be at most {_LOGIN_NAMES} names, of 256 printable ASCII characters "
                "without spaces and commas"
            )
        if self.log_days not in LOG_DAYS:
            raise SettingsError(f"log_days {self.log_days} must be one of {', '.join(map(str, LOG_DAYS))}")

    def values(self) -> dict[str, Any]:
        """Return the settings by name, as values of JSON: all that change what is deployed."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {name: value for name, value in values.items() if name not in _OF_THE_MACHINE}

    def check_region(self, region: str) -> None:
        """Check that what the settings name by ARN is in the ``region`` of the deployment. :class:`SettingsError`."""
        arns = [
            *((name, getattr(self, name)) for name in ("sealing_key", "first_key", "encryption_key", "api_connection")),
            *(("former_encryption_keys", key) for key in self.former_encryption_keys),
            *(("kms_keys", key) for key in self.kms_keys),
            ("certificate", "" if self.web_acl else self.certificate),
        ]
        for name, arn in arns:
            if ":" in arn and arn.split(":")[3] != region:
                raise SettingsError(f"{name} {arn!r} must be in {region}, the region of the deployment")

    @property
    def adopts_table(self) -> bool:
        """Whether ``table`` takes the place of the stack's own, which is then not created."""
        return bool(self.table and self.sealing_key)

    def _check_adopted(self) -> None:
        for name in ("bucket", "landing_bucket"):
            value = getattr(self, name)
            if value and not _BUCKET.fullmatch(value):
                raise SettingsError(f"{name} {value!r} must be the name of a bucket")
        if self.bucket and self.bucket == self.landing_bucket:
            raise SettingsError(f"bucket and landing_bucket are both {self.bucket!r}; they must be two buckets")
        if self.bucket and self.bucket in self.ingest_buckets:
            raise SettingsError(f"ingest_buckets: {self.bucket!r} is the bucket of the deployment's own objects")
        if self.sealing_key and not _KEY.fullmatch(self.sealing_key):
            raise SettingsError(
                f"sealing_key {self.sealing_key!r} must be the ARN of a key, not of an alias: arn:aws:kms:…:key/…"
            )
        if self.sealing_key and not self.table:
            raise SettingsError("sealing_key is given, but no table whose secrets it sealed; name one, or leave it out")
        if self.first_key and not SECRET.fullmatch(self.first_key):
            raise SettingsError(
                f"first_key {self.first_key!r} must be the whole ARN of a secret: arn:aws:secretsmanager:…:secret:…-AbCdEf"
            )
        if self.first_key and not self.adopts_table:
            raise SettingsError("first_key is given without table and sealing_key; a new lake gets a key of its own")
        if self.adopts_table and (self.warm_reads or self.warm_writes):
            raise SettingsError(
                "warm_reads and warm_writes are for a table that is created; leave them out with sealing_key"
            )

    def _check_former_keys(self) -> None:
        for key in self.former_encryption_keys:
            if key != OWN_KEY and not _KEY.fullmatch(key):
                raise SettingsError(
                    f"former_encryption_keys: {key!r} must be {OWN_KEY}, or the ARN of a key: arn:aws:kms:…:key/…"
                )
        if self.encryption_key and self.encryption_key in self.former_encryption_keys:
            raise SettingsError(f"former_encryption_keys: {self.encryption_key!r} is also the encryption_key")
        if len(self.former_encryption_keys) > _FORMER_KEYS:
            raise SettingsError(f"former_encryption_keys names more than {_FORMER_KEYS} keys")

    def _check_concurrency(self) -> None:
        """A mapping that starts more copies than its function has has messages throttled, which come again until they are given
        up: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""
        function, copies = ("ingest", INGEST_AT_ONCE) if self.ingest else ("maintain", MAINTAIN_AT_ONCE)
        if 0 < self.reserved_concurrency < copies:
            raise SettingsError(
                f"reserved_concurrency {self.reserved_concurrency} must be 0, or at least {copies}: as many batches of its queue "
                f"does the function {function} work on at once"
            )

    def _check_domain(self) -> None:
        if self.front_door_key != 1 and not self.web_acl:
            raise SettingsError("front_door_key is given, but no web_acl; name one, or leave it out")
        if not self.domain:
            for name in ("certificate", "hosted_zone", "only_domain", "web_acl"):
                if getattr(self, name):
                    raise SettingsError(f"{name} is given, but no domain; name one, or leave it out")
            return
        if not _DOMAIN.fullmatch(self.domain):
            raise SettingsError(f"domain {self.domain!r} must be a host's full name in small letters: lake.example.org")
        if not re.fullmatch(r"arn:[^:]+:acm:[^:]+:[^:]*:certificate/[\w-]+", self.certificate):
            raise SettingsError(
                f"certificate {self.certificate!r} must be the ARN of the certificate for {self.domain}: "
                "arn:aws:acm:…:certificate/…"
            )
        if self.hosted_zone and not re.fullmatch(r"Z[A-Z0-9]{1,31}", self.hosted_zone):
            raise SettingsError(f"hosted_zone {self.hosted_zone!r} must be the ID of a zone of Route 53: Z…")

        if self.web_acl:
            self._check_front_door()

    def _check_front_door(self) -> None:
        if not re.fullmatch(r"arn:[^:]+:wafv2:us-east-1:[^:]*:global/webacl/[\w-]+/[\w-]+", self.web_acl):
            raise SettingsError(
                f"web_acl {self.web_acl!r} must be the ARN of a web ACL with the scope CLOUDFRONT: "
                "arn:aws:wafv2:us-east-1:…:global/webacl/…/…"
            )
        if ":acm:us-east-1:" not in self.certificate:
            raise SettingsError(
                f"certificate {self.certificate!r} must be in us-east-1 with web_acl: CloudFront takes no others"
            )
        if self.only_domain:
            raise SettingsError("only_domain and web_acl exclude each other: CloudFront calls the API by its own name")

    def throttled(self) -> dict[str, tuple[int, int]]:
        """``throttles`` by operation: requests a second, and how many at once. :class:`SettingsError`."""
        found = {}
        for each in self.throttles:
            told = _THROTTLE.fullmatch(each)
            if told is None or told[1] in found:
                raise SettingsError(
                    f"throttles: {each!r} must be operation=rate/burst, and each operation be named once"
                )
            rate, burst = int(told[2]), int(told[3])
            if not (1 <= rate <= self.requests_per_second and 1 <= burst <= self.burst):
                raise SettingsError(
                    f"throttles: {each!r} must be 1/1 to {self.requests_per_second}/{self.burst}, the limits of the whole API"
                )
            found[told[1]] = rate, burst
        return found

    def kept_ready(self) -> dict[str, int]:
        """``provisioned`` by function: how many processes. :class:`SettingsError`."""
        found = {}
        for each in self.provisioned:
            told = _PROVISIONED.fullmatch(each)
            if told is None or told[1] in found:
                raise SettingsError(
                    f"provisioned: {each!r} must be function=processes, one or more, and each function be named once"
                )
            found[told[1]] = int(told[2])
        return found

    def _check_starts(self) -> None:
        kept_ready = self.kept_ready()
        for name, functions in (("snap_start", self.snap_start), ("provisioned", tuple(kept_ready))):
            for function in functions:
                if function not in QUICK_STARTS:
                    raise SettingsError(f"{name}: {function!r} must be one of {', '.join(QUICK_STARTS)}")
        if both := sorted(set(self.snap_start) & set(kept_ready)):
            raise SettingsError(
                f"snap_start and provisioned both name {', '.join(both)}; Lambda does one of the two for a function"
            )
        if self.snap_start and self.scratch > _SNAPSHOT_SCRATCH:
            raise SettingsError(
                f"scratch {self.scratch} must be {_SNAPSHOT_SCRATCH} with snap_start: Lambda takes no snapshot of more"
            )
        for function, processes in kept_ready.items():
            if 0 < self.reserved_concurrency < processes:
                raise SettingsError(
                    f"provisioned: {function}={processes} must not be more than reserved_concurrency, "
                    f"{self.reserved_concurrency}"
                )

    def _check_buckets(self) -> None:
        for name in ("data_buckets", "import_buckets", "ingest_buckets"):
            places = tuple(map(_place, getattr(self, name)))
            for place in places:
                if not _PLACE.fullmatch(place):
                    raise SettingsError(
                        f"{name}: {place!r} must be the name of a bucket, or of a folder in it as bucket/folder/, without * ? $"
                    )
                if name == "ingest_buckets" and "/" in place:
                    raise SettingsError(
                        f"ingest_buckets: {place!r} must be a whole bucket; rules of ingest say which folders count"
                    )
            object.__setattr__(self, name, places)
        lists = (self.data_buckets, self.import_buckets, self.ingest_buckets, self.aws_login)
        chars = sum(len(name) + 1 for names in lists for name in names) + self.checks.chars
        chars += _CHECK_FUNCTION_CHARS if self.check_function else 0
        if chars > _NAME_CHARS:
            raise SettingsError(
                f"data_buckets, import_buckets, ingest_buckets, checks and aws_login have {chars:,} characters together; "
                f"{_NAME_CHARS:,} fit into what a function may be told"
            )

    def _check_checks(self) -> None:
        if problem := self.checks.problem():
            raise SettingsError(f"checks: {problem}")
        if self.checks and self.shared_cache:
            raise SettingsError(
                "checks and shared_cache exclude each other: functions with the shared cache reach no function and no webhook"
            )

        if self.table_credentials and self.shared_cache:
            raise SettingsError(
                "table_credentials and shared_cache exclude each other: functions with the shared cache do not reach STS, which "
                "issues credentials"
            )

    def _check_executors(self) -> None:
        """EMR Serverless refuses other sizes, and that would be known when the first job runs."""
        sizes = _EXECUTOR_MEMORY.get(self.spark_executor_cpus)
        if sizes is None:
            raise SettingsError(
                f"spark_executor_cpus {self.spark_executor_cpus} must be one of {', '.join(map(str, _EXECUTOR_MEMORY))}"
            )
        low, high = sizes
        if not low <= self.spark_executor_memory <= high:
            raise SettingsError(
                f"spark_executor_memory {self.spark_executor_memory} must be {low} to {high} with "
                f"{self.spark_executor_cpus} processors"
            )
        if not 20 <= self.spark_executor_disk <= 200:
            raise SettingsError(f"spark_executor_disk {self.spark_executor_disk} must be 20 to 200")
        if executors_of_a_job(self.spark_cpus, self.spark_jobs_at_once, self.spark_executor_cpus) < 1:
            least = (DRIVER_CPUS + self.spark_executor_cpus) * self.spark_jobs_at_once
            raise SettingsError(
                f"spark_cpus {self.spark_cpus} must be {least} or more: each of {self.spark_jobs_at_once} jobs needs "
                f"{DRIVER_CPUS} processors for its driver, and {self.spark_executor_cpus} for an executor"
            )


_EXECUTOR_MEMORY: Final = {1: (1, 7), 2: (1, 14), 4: (1, 27), 8: (1, 54), 16: (1, 109)}
"""GB of heap by virtual processors. Workers have at most 8, 16, 30, 60 and 120 GB, and a tenth is Spark's overhead:
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html"""

_NAME_CHARS: Final = 2_400
"""Of the 4 KB that all environment variables of a function may have together:
https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""

_CHECK_FUNCTION_CHARS: Final = 400
"""Of the ARNs of its function and state machine, and of its bounds."""

_OF_THE_MACHINE: Final = ("spark_package",)
"""Settings that say where something is on the machine that deploys."""
OWN_KEY: Final = "own"
"""As ``encryption_key``: a key that the deployment makes."""
_KEY: Final = re.compile(r"arn:[^:]+:kms:[^:]+:[^:]*:key/[\w-]+")
_CONNECTION: Final = re.compile(r"arn:[^:]+:events:[^:]+:[^:]*:connection/[.\w-]+/[\w-]+")
_POLICY: Final = re.compile(r"arn:[^:]+:iam::[^:]*:policy/[\w+=,.@/-]+")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_KMS_KEYS: Final = 20
"""Each is 80 characters of the 10,240 that the policies inside a role may have together:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
_FORMER_KEYS: Final = 4
"""Each adds a statement to the policies of all roles."""
_DOMAIN: Final = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_THROTTLE: Final = re.compile(r"([A-Za-z]+)=(\d{1,6})/(\d{1,6})")
_PROVISIONED: Final = re.compile(r"([a-z]+)=([1-9]\d{0,3})")
_LOGIN_NAMES: Final = 4

INGEST_AT_ONCE: Final = 5
"""Batches of events that the function ``ingest`` works on. Transactions on one branch exclude each other, so more make one branch
no faster."""
MAINTAIN_AT_ONCE: Final = 2
"""Long operations that the function ``maintain`` works on, the fewest that a mapping may say."""

QUICK_STARTS: Final = ("read", "write", "commit", "merge", "catalog", "diff", "maintain", "operate", "ingest")
"""Functions that may be kept ready, or start from snapshots: all but ``setup``, which runs once in a deployment."""

_SNAPSHOT_SCRATCH: Final = 512
"""MiB of /tmp: https://docs.aws.amazon.com/lambda/latest/dg/snapstart.html"""

LOG_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1827, 3653)
"""Retentions that CloudWatch knows."""


def _check_job(name: str, job: SparkJob, *, calls: bool) -> None:
    if not re.fullmatch("[A-Za-z][A-Za-z0-9]{0,39}", name):
        raise SettingsError(f"spark_jobs: name {name!r} must be letters and digits, a letter first")
    if not re.fullmatch(r"(cron|rate)\(.+\)", job.schedule):
        raise SettingsError(f"spark_jobs: schedule {job.schedule!r} of {name} must be cron(…) or rate(…)")
    if not re.fullmatch("[a-z_]+", job.job):
        raise SettingsError(
            f"spark_jobs: job {job.job!r} of {name} must be a module of graveler.spark.jobs, as import_"
        )
    if job.calls and not calls:
        raise SettingsError(f"spark_jobs: {name} calls the API, but api_connection does not say by which connection")
    for call in job.calls:
        if set(call) != {"method", "path", "body"}:
            raise SettingsError(f"spark_jobs: each call of {name} needs method, path and body, and nothing else")


_PLACE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|(/[^/*?$,\s]+)+/)?")


def _place(written: str) -> str:
    """A bucket's name, or a folder's with a slash at its end, however it was written."""
    bucket, slash, folder = written.partition("/")
    return bucket if not folder else f"{bucket}{slash}{folder.rstrip('/')}/"


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} {value!r} must be one of {', '.join(allowed)}")
