"""Findings of cdk-nag that are as they should be, each with its reason."""

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Let a rule's finding about a construct pass."""
    Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))
