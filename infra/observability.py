"""What an on-call person looks at, and what wakes them."""

from functools import partial
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.api import ApiStack
from infra.functions import CheckFunction
from infra.ingest import IngestStack
from infra.operations import OperationsStack
from infra.settings import Settings
from infra.spark import SparkStack
from infra.stateful import lake_table

_PERIOD: Final = Duration.minutes(5)
_SLOW_MS: Final = 10_000
"""Of the function ``read``, which waits for nothing that takes long."""
_ENDING_MS: Final = 25_000
"""Of an answer: more than the 20 s for which a commit or merge waits for its operation, less than the 29 s that it has."""
_OLDEST_SECONDS: Final = 1800
_WORKERS: Final = ("maintain", "operate", "ingest")
"""Functions whose work comes again when it fails, or is handed on at the end of their time: some failures are no trouble."""


class ObservabilityStack(Stack):
    """Dashboard, alarms, and the topic that they notify."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        served: ApiStack,
        operations: OperationsStack,
        check_function: CheckFunction | None,
        ingest: IngestStack | None,
        spark: SparkStack | None,
        table: dynamodb.ITable,
    ) -> None:
        super().__init__(scope, name, description="graveler: dashboard, alarms")
        table = lake_table(self, settings, table)
        self._served = served
        self._machine = operations.machine
        self._ingest = ingest
        self._spark = spark
        self._functions = {
            # CloudFormation says itself what became of the first access key.
            **{verb: function for verb, function in served.functions.items() if verb != "setup"},
            "operate": operations.function,
            **({} if check_function is None else {"check": check_function.function}),
            **({} if ingest is None else {"ingest": ingest.function}),
        }
        self.topic = sns.Topic(self, "Alarms", enforce_ssl=True)
        if settings.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(settings.alarm_email))
        self.export_value(self.topic.topic_arn)  # also while there is no budget: so its stack can come and go
        self._let_publish("cloudwatch.amazonaws.com", *(["budgets.amazonaws.com"] if settings.monthly_budget else []))
        self._alarms = self._all_alarms(table)
        self._dashboard(settings, table)

    def _let_publish(self, *services: str) -> None:
        """A topic with a policy of its own lets nobody publish whom that does not name, CloudWatch neither:
        https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html"""
        for service in services:
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    actions=["sns:Publish"],
                    principals=[iam.ServicePrincipal(service)],
                    resources=[self.topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": self.account}},
                )
            )

    def _all_alarms(self, table: dynamodb.ITable) -> list[cloudwatch.Alarm]:
        served = self._served
        api = served.api
        alarms = [
            self._alarm(
                "ServerErrors",
                _percent(api.metric_server_error(statistic="Sum"), api.metric_count(statistic="SampleCount"), least=5),
                1,
                "percent of the answers have a 5xx, 5 or more in 5 minutes",
            ),
            self._alarm(
                "Latency",
                api.metric_latency(period=_PERIOD, statistic="p99"),
                _ENDING_MS,
                "p99 of the answers' time in ms",
                periods=3,
            ),
            self._alarm(
                "ReadLatency",
                self._functions["read"].metric_duration(period=_PERIOD, statistic="p99"),
                _SLOW_MS,
                "p99 of the time in ms in which read answers",
                periods=3,
            ),
            *self._throttles(table),
            self._alarm(
                "OperationsWaiting",
                served.operations.metric_approximate_age_of_oldest_message(period=_PERIOD, statistic="Maximum"),
                _OLDEST_SECONDS,
                "seconds that the oldest long operation has waited",
            ),
            self._alarm(
                "OperationsGivenUp",
                self._machine.metric_failed(period=_PERIOD),
                1,
                "long operations of which a step failed again and again",
            ),
            self._alarm(
                "OperationsTimedOut",
                self._machine.metric_timed_out(period=_PERIOD),
                1,
                "long operations that ran for half a day",
            ),
            self._alarm(
                "DeadLetters",
                served.dead_letters.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum"),
                1,
                "operations and clean-ups that were given up",
            ),
        ]
        if self._ingest is not None:
            alarms += self._ingest_alarms(self._ingest)
        if self._spark is not None:
            alarms.append(
                self._alarm(
                    "SparkJobsFailed",
                    self._spark.flow.metric_failed(period=_PERIOD),
                    1,
                    "Spark jobs that failed, or calls after them",
                )
            )
        for verb, function in self._functions.items():
            title = verb.capitalize()
            works = verb in _WORKERS
            alarms += [
                self._alarm(
                    f"{title}Errors",
                    _percent(function.metric_errors(), function.metric_invocations(), least=1 if works else 2),
                    50 if works else 1,
                    f"percent of the runs of {verb} broke down or ran out of time",
                    periods=3 if works else 1,
                ),
                self._alarm(
                    f"{title}Throttles",
                    _percent(function.metric_throttles(), function.metric_invocations(), least=5, apart=True),
                    1,
                    f"percent of the runs of {verb} were not started, for want of concurrency",
                    periods=3,
                ),
            ]
        return alarms

    def _throttles(self, table: dynamodb.ITable) -> list[cloudwatch.Alarm]:
        """Reads and writes that the table refused, beside the units of those that it did not. (``ThrottledRequests`` has the
        dimension ``Operation`` besides the table, without which there is nothing:
        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html)"""
        units = {"Read": table.metric_consumed_read_capacity_units, "Write": table.metric_consumed_write_capacity_units}
        return [
            self._alarm(
                f"Table{kind}Throttles",
                _percent(
                    table.metric(f"{kind}ThrottleEvents", statistic="Sum"),
                    consumed(statistic="Sum"),
                    least=10,
                    apart=True,
                ),
                1,
                f"percent of the table's {kind.lower()}s were refused, 10 or more in 5 minutes",
                periods=3,
            )
            for kind, consumed in units.items()
        ]

    def _ingest_alarms(self, ingest: IngestStack) -> list[cloudwatch.Alarm]:
        return [
            self._alarm(
                "IngestWaiting",
                ingest.queue.metric_approximate_age_of_oldest_message(period=_PERIOD, statistic="Maximum"),
                _OLDEST_SECONDS,
                "seconds that the oldest event of an object has waited",
            ),
            self._alarm(
                "IngestDeadLetters",
                ingest.dead_letters.metric_approximate_number_of_messages_visible(period=_PERIOD, statistic="Maximum"),
                1,
                "events that could not be ingested",
            ),
            self._alarm(
                "IngestCommits",
                ingest.overdue.metric(period=_PERIOD, statistic="Sum"),
                1,
                "commits of ingest that are due and cannot be made",
                periods=3,
            ),
            self._alarm(
                "IngestPending",
                ingest.pending.metric(period=_PERIOD, statistic="Sum"),
                1,
                "rules of ingest of which something should have been committed 15 minutes ago",
            ),
            self._alarm(
                "IngestUnread",
                ingest.unread.metric(period=_PERIOD, statistic="Sum"),
                1,
                "rules, repositories and states of ingest that cannot be read",
            ),
        ]

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        description: str,
        *,
        periods: int = 1,
    ) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"graveler: {description}; docs/deploy.md says what to do",
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        return alarm

    def _dashboard(self, settings: Settings, table: dynamodb.ITable) -> None:
        api, functions, own = self._served.api, self._functions, partial(_own, settings.name)
        dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=settings.name, default_interval=Duration.hours(3)
        )
        dashboard.add_widgets(cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(self._alarms), width=24))
        dashboard.add_widgets(
            _graph(
                "Requests",
                [
                    api.metric_count(period=_PERIOD),
                    api.metric_client_error(period=_PERIOD),
                    api.metric_server_error(period=_PERIOD),
                ],
            ),
            _graph(
                "Time of answers (ms)", [api.metric_latency(period=_PERIOD, statistic=s) for s in ("p50", "p90", "p99")]
            ),
            _graph(
                "Functions: errors and throttles",
                [m for f in functions.values() for m in (f.metric_errors(), f.metric_throttles())],
            ),
        )
        dashboard.add_widgets(
            _graph("Functions: time (p99, ms)", [f.metric_duration(statistic="p99") for f in functions.values()]),
            _graph("Functions: at once", [_concurrent(f) for f in functions.values()]),
            _graph(
                "Table: units",
                [table.metric_consumed_read_capacity_units(), table.metric_consumed_write_capacity_units()],
            ),
        )
        dashboard.add_widgets(
            _graph("Requests to S3", [own("ObjectRequests", verb) for verb in functions]),
            _graph("Requests to DynamoDB", [own("TableRequests", verb) for verb in functions]),
            _graph("Repeated requests", [own("Retries", verb) for verb in functions]),
        )
        dashboard.add_widgets(
            _graph("Trees: found in memory", [own("MemoryHits", verb) for verb in functions]),
            _graph(
                "Trees: found in /tmp, or in the shared cache",
                [own(name, verb) for name in _near(settings) for verb in functions],
            ),
            _graph("Trees: read from S3", [own("CacheMisses", verb) for verb in functions]),
        )
        dashboard.add_widgets(
            _graph("Caches: what they could not do", [own("CacheFailures", verb) for verb in functions]),
            _graph(
                "Long operations waiting", [self._served.operations.metric_approximate_number_of_messages_visible()]
            ),
        )
        dashboard.add_widgets(
            _graph(
                "Long operations",
                [
                    self._machine.metric_started(period=_PERIOD),
                    self._machine.metric_succeeded(period=_PERIOD),
                    self._machine.metric_failed(period=_PERIOD),
                ],
            ),
            _graph("Long operations: time (ms)", [self._machine.metric_time(period=_PERIOD, statistic="Maximum")]),
            _graph("Long operations: steps", [self._functions["operate"].metric_invocations(period=_PERIOD)]),
        )
        if self._ingest is not None:
            queue, given_up = self._ingest.queue, self._ingest.dead_letters
            dashboard.add_widgets(
                _graph(
                    "Ingest: events",
                    [queue.metric_number_of_messages_sent(), queue.metric_number_of_messages_deleted()],
                ),
                _graph("Ingest: age of the oldest (s)", [queue.metric_approximate_age_of_oldest_message()]),
                _graph("Ingest: dead letters", [given_up.metric_approximate_number_of_messages_visible()]),
            )


def _graph(title: str, metrics: list[cloudwatch.Metric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, period=_PERIOD)


def _percent(
    counted: cloudwatch.Metric, total: cloudwatch.Metric, *, least: int, apart: bool = False
) -> cloudwatch.MathExpression:
    """How much of ``total`` is ``counted``, in percent; 0 while that is fewer than ``least`` in a period. ``apart``: what is
    counted is not in the total, as what Lambda and DynamoDB refuse is in no other figure."""
    whole = "(counted + total)" if apart else "total"
    return cloudwatch.MathExpression(
        expression=f"IF(counted >= {least}, 100 * counted / {whole}, 0)",
        using_metrics={"counted": counted, "total": total},
        period=_PERIOD,
    )


def _own(namespace: str, name: str, verb: str) -> cloudwatch.Metric:
    """A figure that a function writes itself."""
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map={"service": verb}, statistic="Sum", label=verb
    )


def _near(settings: Settings) -> tuple[str, ...]:
    return ("ScratchHits", "SharedHits") if settings.shared_cache else ("ScratchHits",)


def _concurrent(function: lambda_.Function) -> cloudwatch.Metric:
    return function.metric("ConcurrentExecutions", statistic="Maximum")
