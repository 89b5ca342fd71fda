"""The location of AWS services in AWS's own configuration: the region, and endpoints of other servers.

boto3 reads ``AWS_DEFAULT_REGION`` alone, where AWS's other SDKs and its command line read ``AWS_REGION`` first
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html). Endpoints are in the environment or in the profile
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html).
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.session import Session


def region_of(named: str | None) -> str | None:
    """Return the region ``named``, otherwise that of ``AWS_REGION``; None: boto3 looks further (``AWS_DEFAULT_REGION``,
    profile)."""
    return named or os.environ.get("AWS_REGION") or None


def configured_endpoint(session: "Session", service: str) -> str | None:
    """Return the endpoint that environment or profile name for a service (``s3``), as botocore resolves it; None: AWS's own."""
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    profile = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(profile.get("services"), {})
    candidates = (
        os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}"),
        os.environ.get("AWS_ENDPOINT_URL"),
        services.get(service, {}).get("endpoint_url"),
        profile.get("endpoint_url"),
    )
    return next(filter(None, candidates), None)
