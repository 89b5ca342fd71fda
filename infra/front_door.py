"""CloudFront before the API, where a web application firewall can stand: AWS WAF has no HTTP APIs among what it protects.

https://docs.aws.amazon.com/waf/latest/developerguide/how-aws-waf-works-resources.html

Nobody comes around it: CloudFront adds a secret to each request, and functions answer none without it
(:mod:`graveler.functions.front_door`). The secret is made by Secrets Manager, and comes to both as a dynamic reference, which
CloudFormation resolves when it changes either of them:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-secretsmanager.html
"""

from collections.abc import Sequence
from typing import Final

from aws_cdk import CfnOutput, Duration, Fn, RemovalPolicy
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct, IConstruct

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


HEADER: Final = "X-Graveler-Front-Door"
"""As graveler.functions.front_door.HEADER. CloudFront replaces what a client sends under this name:
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/add-origin-custom-headers.html"""

_KEY_CHARS: Final = 64


def front_door_keys(scope: Construct, settings: Settings) -> list[str]:
    """References to the secrets that functions take: the one that CloudFront sends first, and the one before it, which it sends
    from some of its places while another one spreads."""
    keys = []
    for number in range(settings.front_door_key, max(0, settings.front_door_key - 2), -1):
        secret = secretsmanager.Secret(
            scope,
            f"FrontDoorKey{number}",
            description=f"graveler: what CloudFront tells the functions, number {number}",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                exclude_punctuation=True, password_length=_KEY_CHARS
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            secret,
            "AwsSolutions-SMG4",
            "Functions and CloudFront change together, with a deployment: front_door_key says which secret it is.",
        )
        keys.append(secret.secret_value.unsafe_unwrap())
    return keys


def give_front_door(
    scope: Construct, settings: Settings, served: api.HttpApi, key: str, functions: Sequence[IConstruct]
) -> None:
    """Have the API answer under ``domain`` by way of a distribution of CloudFront that keeps nothing but files of the web page,
    with the firewall ``web_acl`` before it. It sends the secret ``key``, once ``functions`` take it.

    The API gets its own host name, as it knows no other one, and the name that was asked as ``X-Forwarded-Host``, for sessions of
    browsers. No credential of the API signs the host: keys and tokens sign nothing, and a login by AWS signs the host of STS. All
    else is passed on, ``Authorization`` too, which only managed policies do for requests that are not kept:
    https://repost.aws/knowledge-center/cloudfront-authorization-header
    """
    origin = origins.HttpOrigin(
        Fn.select(2, Fn.split("/", served.api_endpoint)),
        protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
        read_timeout=Duration.seconds(_ORIGIN_SECONDS),
        custom_headers={"X-Forwarded-Host": settings.domain, HEADER: key},
    )
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
            origin=origin,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
            cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
            origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
            compress=False,  # ranges and lengths stay those of the object
        ),
        additional_behaviors={
            # Files of the web page: their names change with their contents, and the function compresses them.
            "/assets/*": cloudfront.BehaviorOptions(
                origin=origin,
                cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
                viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
                compress=False,
            )
        },
        error_responses=[
            cloudfront.ErrorResponse(http_status=status, ttl=Duration.seconds(0)) for status in _KEPT_ERRORS
        ],
    )
    for function in functions:
        distribution.node.add_dependency(function)
    acknowledge(distribution, "AwsSolutions-CFR1", "Clients may be anywhere; the firewall may tell countries apart.")
    acknowledge(distribution, "AwsSolutions-CFR3", "The API logs each request, and the firewall those that it stops.")
    target = distribution.distribution_domain_name
    CfnOutput(scope, "DomainTarget", value=target, description=f"what {settings.domain} is to lead to")
    point_domain(scope, settings, target, ZONE)
