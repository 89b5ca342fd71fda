"""The table of AWS's STS hosts equals that of AWS's own SDK."""

from urllib.parse import urlsplit

import pytest
from botocore.loaders import Loader
from botocore.regions import EndpointResolver
from botocore.session import get_session

from graveler.access.sts_hosts import REGIONS, host_of

ENDPOINTS = Loader().load_data("endpoints")
PARTITIONS = ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
"""Those that the public reaches."""


def test_the_hosts_are_those_that_botocore_knows() -> None:
    """A region that botocore has learnt of since fails this: add it."""
    resolver, known = EndpointResolver(ENDPOINTS), {"sts.amazonaws.com": "us-east-1"}
    for partition in (each for each in ENDPOINTS["partitions"] if each["partition"] in PARTITIONS):
        for region in partition["regions"]:
            for dual in (False, True):
                found = resolver.construct_endpoint("sts", region, use_dualstack_endpoint=dual)
                if found is not None:
                    known[found["hostname"]] = region
        for region in set(partition["regions"]) & set(said := partition["services"]["sts"]["endpoints"]):
            fips = [each for each in said[region].get("variants", ()) if "fips" in each["tags"]]
            known |= {each["hostname"]: region for each in fips if "{" not in each["hostname"]}
    assert known == REGIONS


@pytest.mark.parametrize("region", ["us-east-1", "eu-south-2", "us-gov-west-1", "cn-north-1", "eusc-de-east-1"])
def test_the_host_of_a_region_is_the_one_that_aws_itself_would_ask(region: str) -> None:
    client = get_session().create_client("sts", region, aws_access_key_id="a", aws_secret_access_key="b")
    assert host_of(region) == (urlsplit(client.meta.endpoint_url).hostname, region)


def test_an_unknown_region_signs_for_the_first_one() -> None:
    assert host_of(None) == host_of("xx-new-9") == ("sts.us-east-1.amazonaws.com", "us-east-1")


@pytest.mark.parametrize("host", ["sts.s3.amazonaws.com", "sts.us-east-1.amazonaws.com.", "STS.amazonaws.com"])
def test_what_looks_like_one_is_none(host: str) -> None:
    assert host not in REGIONS
