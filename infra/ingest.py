"""Ingest: what lands in buckets goes by way of EventBridge into a queue, and a function makes commits of it."""

from typing import Final

from aws_cdk import CfnOutput, Duration, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as states
from constructs import Construct

from infra.encryption import key_in
from infra.event_patterns import CHANGES, LONGEST_NAME, SOURCE, split_by_pattern
from infra.functions import PUT_OBJECTS, READ_OBJECTS, CheckFunction, Duty, Functions, Needs, start
from infra.queues import consume, dead_letters, send, work_queue
from infra.settings import INGEST_AT_ONCE, Settings
from infra.stateful import lake_table
from infra.table_rights import WRITE_TABLE

SECONDS: Final = 300
"""Of a function that works on a batch, the commit that it makes due included."""

TRIES: Final = 20
"""Of a message that might succeed, some hours long (:data:`graveler.functions.ingest_entry.LONGEST_WAIT`)."""

BATCH: Final = 480
"""Messages of a batch: ten transactions of graveler.ingest.ingester.CHUNK keys."""

_WINDOW_SECONDS: Final = 5

CLOCK_MINUTES: Final = 1

OVERDUE: Final = "a commit is due and cannot be made"
PENDING: Final = "something has been pending for too long"
UNREAD: Final = "an item of ingest cannot be read"
"""As in graveler.functions.ingest_entry."""

DUTY: Final = Duty(
    "what lands in buckets, and the commits of it",
    WRITE_TABLE,
    READ_OBJECTS,
    PUT_OBJECTS,
    seconds=SECONDS,
    reads_trees=False,  # it asks its queues
    runs_checks=True,
)


class IngestStack(Stack):
    """Rules, queues, function, clock. Holds nothing but what is in its queues."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        bucket: s3.IBucket,
        table: dynamodb.ITable,
        landing: s3.IBucket,
        encryption_key: kms.IKey | None,
        machine: states.IStateMachine,
        check_function: CheckFunction | None = None,
    ) -> None:
        super().__init__(scope, name, description="graveler: ingest of what lands in buckets")
        table = lake_table(self, settings, table)
        self._settings = settings
        key = key_in(self, encryption_key)
        self.dead_letters = dead_letters(self, "DeadLetters", key)
        self.queue = work_queue(
            self, "Events", seconds=SECONDS, window=_WINDOW_SECONDS, tries=TRIES, given_up=self.dead_letters, key=key
        )
        functions = Functions(
            self,
            "Functions",
            settings,
            bucket=bucket,
            table=table,
            landing=landing,
            encryption_key=key,
            check_function=check_function,
            duties={"ingest": DUTY},
            needs={
                "ingest": Needs(
                    {
                        "GRAVELER_OPERATIONS_MACHINE": machine.state_machine_arn,
                        "GRAVELER_INGEST_QUEUE": self.queue.queue_url,
                        "GRAVELER_INGEST_DEAD_LETTERS": self.dead_letters.queue_url,
                    },
                    [consume(self.queue, postpones=True), send(self.dead_letters), start(machine)],
                )
            },
        )
        self.function = functions.all["ingest"]
        self._called = functions.called["ingest"]
        self.overdue = self._lines("OverdueCommits", OVERDUE)
        self.pending = self._lines("PendingTooLong", PENDING)
        self.unread = self._lines("UnreadItems", UNREAD)
        self._called.add_event_source(
            sources.SqsEventSource(
                self.queue,
                batch_size=BATCH,
                max_batching_window=Duration.seconds(_WINDOW_SECONDS),
                max_concurrency=INGEST_AT_ONCE,
                enabled=not settings.paused,
                report_batch_item_failures=True,
            )
        )
        # What the clock starts: by itself, Lambda would try it twice more, when the next minute has come.
        self._called.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(CLOCK_MINUTES))
        self._rules([landing.bucket_name, *settings.ingest_buckets])
        CfnOutput(self, "IngestQueue", value=self.queue.queue_url)
        CfnOutput(self, "IngestDeadLetters", value=self.dead_letters.queue_url)

    def _lines(self, name: str, message: str) -> logs.MetricFilter:
        """How many such lines the function's log has."""
        return logs.MetricFilter(
            self,
            name,
            log_group=self.function.log_group,
            filter_pattern=logs.FilterPattern.string_value("$.message", "=", message),
            metric_namespace=self._settings.name,
            metric_name=name,
        )

    def _rules(self, buckets: list[str]) -> None:
        """While the deployment is paused, events still come into the queue, where they wait."""
        parts = split_by_pattern(buckets, lambda name: LONGEST_NAME if Token.is_unresolved(name) else len(name))
        for number, part in enumerate(parts, 1):
            events.Rule(
                self,
                "Objects" if number == 1 else f"Objects{number}",
                description="graveler: objects that come and go",
                event_pattern=events.EventPattern(
                    source=[SOURCE], detail_type=list(CHANGES), detail={"bucket": {"name": part}}
                ),
                targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)],
            )
        events.Rule(
            self,
            "Clock",
            description="graveler: commits that the clock makes due",
            schedule=events.Schedule.rate(Duration.minutes(CLOCK_MINUTES)),
            enabled=not self._settings.paused,
            targets=[
                # The next minute does what this one did not.
                targets.LambdaFunction(self._called, retry_attempts=0, max_event_age=Duration.minutes(CLOCK_MINUTES))
            ],
        )
