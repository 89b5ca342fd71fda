"""The record that a deployment keeps of its settings: with it, ``infra/deployed.py`` compares what is asked next."""

import json
from hashlib import sha256

from aws_cdk import CfnWaitConditionHandle, Stack

from infra.deployed import METADATA
from infra.settings import Settings


def record_settings(stack: Stack, settings: Settings) -> None:
    """Add the settings to ``stack``, as metadata of a resource that is nothing and costs nothing. They are one text of JSON:
    CloudFormation may turn numbers into text (https://github.com/aws-cloudformation/cloudformation-cli/issues/435), takes ``Ref``
    for a reference, and gets no ``null`` from the CDK.

    The resource is named after the settings: others are another resource, so that CloudFormation has a change to make, which it
    would not have for metadata alone
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/metadata-section-structure.html).
    """
    document = json.dumps(settings.values(), sort_keys=True)
    digest = sha256(document.encode()).hexdigest()[:8]
    CfnWaitConditionHandle(stack, f"Settings{digest}").add_metadata(METADATA, document)
