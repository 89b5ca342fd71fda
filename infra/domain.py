"""A name of one's own for the API: it outlives the stack, whose own address changes when it is made anew."""

from aws_cdk import CfnOutput
from aws_cdk import aws_apigatewayv2 as api
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_route53 as route53
from constructs import Construct

from infra.settings import Settings


def give_domain(scope: Construct, settings: Settings, served: api.HttpApi, stage: api.HttpStage) -> None:
    """Have the API answer under ``domain``, with the certificate that the settings name; with ``hosted_zone``, make the records
    there, for IPv4 and IPv6. Whoever keeps the zone elsewhere lets the name be an alias of the output ``DomainTarget``.

    https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-custom-domain-names.html
    """
    domain = api.DomainName(
        scope,
        "Domain",
        domain_name=settings.domain,
        certificate=acm.Certificate.from_certificate_arn(scope, "Certificate", settings.certificate),
        security_policy=api.SecurityPolicy.TLS_1_2,
        ip_address_type=api.IpAddressType.DUAL_STACK,
    )
    api.ApiMapping(scope, "Mapping", api=served, domain_name=domain, stage=stage)
    CfnOutput(
        scope, "DomainTarget", value=domain.regional_domain_name, description=f"what {settings.domain} is to lead to"
    )
    point_domain(scope, settings, domain.regional_domain_name, domain.regional_hosted_zone_id)


def point_domain(scope: Construct, settings: Settings, target: str, zone: str) -> None:
    """Make ``domain`` an alias of a name of AWS, ``target`` in its ``zone``, where a ``hosted_zone`` is given."""
    if settings.hosted_zone:
        for kind in ("A", "AAAA"):
            route53.CfnRecordSet(
                scope,
                f"Record{kind}",
                hosted_zone_id=settings.hosted_zone,
                name=settings.domain,
                type=kind,
                alias_target=route53.CfnRecordSet.AliasTargetProperty(dns_name=target, hosted_zone_id=zone),
            )
