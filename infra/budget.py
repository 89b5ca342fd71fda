"""The budget: a stack of its own, as CloudFormation does not know budgets in each region, and of the deployment alone."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.settings import TAG, Settings

_NOTIFICATIONS: Final = (("ACTUAL", 80), ("FORECASTED", 100))
"""Percent of the budget, spent and forecast, beyond which the topic of the alarms hears of it."""


class BudgetStack(Stack):
    """A monthly budget in US dollars of what has the deployment's tag, which notifies ``topic``.

    It counts nothing until somebody has activated the tag for cost allocation:
    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html. The topic lets budgets publish
    (:class:`infra.observability.ObservabilityStack`)."""

    def __init__(self, scope: Construct, name: str, settings: Settings, *, topic: sns.ITopic) -> None:
        super().__init__(scope, name, description="graveler: budget")
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=settings.monthly_budget, unit="USD"),
                filter_expression=budgets.CfnBudget.ExpressionProperty(
                    tags=budgets.CfnBudget.TagValuesProperty(key=TAG, values=[settings.name], match_options=["EQUALS"])
                ),
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind, comparison_operator="GREATER_THAN", threshold=percent
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in _NOTIFICATIONS
            ],
        )
