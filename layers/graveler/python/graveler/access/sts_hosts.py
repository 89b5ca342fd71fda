"""The hosts of AWS's Security Token Service, and the region whose name stands in the signature of a request to each.

A client that logs in names its own host (:mod:`graveler.access.identity_tokens`), and that host's response identifies the client.
So this is a list and not a pattern: ``sts.s3.amazonaws.com`` would fit any pattern of the hosts below, and is a bucket with some
owner. The hosts are those of the service's endpoint rules in AWS's own SDKs, and of
https://docs.aws.amazon.com/general/latest/gr/sts.html: by region, with FIPS, with both kinds of addresses (``api.aws``), and the
one that is for all regions.
"""

from collections.abc import Mapping
from typing import Final

_AWS: Final = (
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
_FIPS: Final = ("us-east-1", "us-east-2", "us-west-1", "us-west-2")
_CHINA: Final = ("cn-north-1", "cn-northwest-1")
_GOVERNMENT: Final = ("us-gov-east-1", "us-gov-west-1")
_EUROPE: Final = ("eusc-de-east-1",)

REGIONS: Final[Mapping[str, str]] = {
    "sts.amazonaws.com": "us-east-1",
    **{f"sts-fips.{region}.amazonaws.com": region for region in _FIPS},
    **{f"sts.{region}.amazonaws.com": region for region in (*_AWS, *_GOVERNMENT)},
    **{f"sts.{region}.api.aws": region for region in (*_AWS, *_GOVERNMENT)},
    **{f"sts.{region}.amazonaws.com.cn": region for region in _CHINA},
    **{f"sts.{region}.api.amazonwebservices.com.cn": region for region in _CHINA},
    **{f"sts.{region}.amazonaws.eu": region for region in _EUROPE},
    **{f"sts.{region}.api.amazonwebservices.eu": region for region in _EUROPE},
}
"""The region by host."""

_HOSTS: Final = {region: host for host, region in REGIONS.items() if host == f"sts.{region}.amazonaws.com"} | {
    region: host for host, region in REGIONS.items() if region in (*_CHINA, *_EUROPE) and ".api." not in host
}


def host_of(region: str | None) -> tuple[str, str]:
    """Return host and region of the service for a caller in ``region``: us-east-1's for none, and for an unknown one."""
    sts_region = region if region in _HOSTS else "us-east-1"
    assert sts_region is not None
    return _HOSTS[sts_region], sts_region
