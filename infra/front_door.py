"""CloudFront before the API, where a web application firewall can stand: AWS WAF has no HTTP APIs among what it protects.

https://docs.aws.amazon.com/waf/latest/developerguide/how-aws-waf-works-resources.html
"""

from typing import Final

from aws_cdk import CfnOutput, Duration, Fn
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from constructs import Construct

from infra.acknowledged import acknowledge
from infra.domain import point_domain
from infra.settings import Settings

ZONE: Final = "Z2FDTNDATAQYW2"
"""Of all distributions, for records that are aliases of one:
https://docs.aws.amazon.com/Route53/latest/APIReference/API_AliasTarget.html"""

_KEPT_ERRORS: Final = (400, 403, 404, 405, 414, 500, 501, 502, 503, 504)
"""Errors that CloudFront keeps for ten seconds unless it is told otherwise, whatever the cache policy says: an object would stay
missing after it was put. https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/custom-error-pages-expiration.html"""

_ORIGIN_SECONDS: Final = 60
"""More than any function takes, and the most without a request to AWS."""


def give_front_door(scope: Construct, settings: Settings, served: api.HttpApi) -> None:
    """Have the API answer under ``domain`` by way of a distribution of CloudFront that keeps nothing, with the firewall
    ``web_acl`` before it.

    The API gets its own host name, as it knows no other one, and the name that was asked as ``X-Forwarded-Host``, for sessions of
    browsers. No credential of the API signs the host: keys and tokens sign nothing, and a login by AWS signs the host of STS. All
    else is passed on, ``Authorization`` too, which only managed policies do for requests that are not kept:
    https://repost.aws/knowledge-center/cloudfront-authorization-header
    """
    distribution = cloudfront.Distribution(
        scope,
        "FrontDoor",
        comment=settings.name,
        domain_names=[settings.domain],
        certificate=acm.Certificate.from_certificate_arn(scope, "Certificate", settings.certificate),
        minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
        http_version=cloudfront.HttpVersion.HTTP2_AND_3,
        web_acl_id=settings.web_acl,
        default_behavior=cloudfront.BehaviorOptions(
            origin=origins.HttpOrigin(
                Fn.select(2, Fn.split("/", served.api_endpoint)),
                protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
                read_timeout=Duration.seconds(_ORIGIN_SECONDS),
                custom_headers={"X-Forwarded-Host": settings.domain},
            ),
            allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
            cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
            origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            compress=False,  # ranges and lengths stay those of the object
        ),
        error_responses=[
            cloudfront.ErrorResponse(http_status=status, ttl=Duration.seconds(0)) for status in _KEPT_ERRORS
        ],
    )
    acknowledge(distribution, "AwsSolutions-CFR1", "Clients may be anywhere; the firewall may tell countries apart.")
    acknowledge(distribution, "AwsSolutions-CFR3", "The API logs each request, and the firewall those that it stops.")
    target = distribution.distribution_domain_name
    CfnOutput(scope, "DomainTarget", value=target, description=f"what {settings.domain} is to lead to")
    point_domain(scope, settings, target, ZONE)
