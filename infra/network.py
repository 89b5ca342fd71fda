"""By option: a network without a way out, and in it the file system that the functions share as a cache."""

from typing import Final

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_efs as efs
from constructs import Construct

from infra.acknowledged import acknowledge

MOUNT: Final = "/mnt/cache"
_OWNER: Final = "1000"


class NetworkStack(Stack):
    """Two zones, isolated subnets, gateways to S3 and DynamoDB (which cost nothing), endpoints of Step Functions and KMS,
    and EFS. Nothing in it is worth keeping."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name, description="graveler: network and shared cache")
        self.vpc = ec2.Vpc(
            self,
            "Network",
            max_azs=2,
            nat_gateways=0,
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="functions", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20)
            ],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "DynamoDB": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
        )
        acknowledge(
            self.vpc, "AwsSolutions-VPC7", "Only functions run here, and there is no way out but to AWS's own services."
        )
        self.functions_group = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, description="graveler functions", allow_all_outbound=True
        )
        # Who hands over what takes long starts an execution.
        self._endpoint("StepFunctions", ec2.InterfaceVpcEndpointAwsService.STEP_FUNCTIONS)
        # Who checks tokens has what signs them opened.
        self._endpoint("Kms", ec2.InterfaceVpcEndpointAwsService.KMS)
        self.file_system = efs.FileSystem(
            self,
            "Cache",
            vpc=self.vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            encrypted=True,
            throughput_mode=efs.ThroughputMode.ELASTIC,
            enable_automatic_backups=False,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.file_system.connections.allow_default_port_from(self.functions_group)
        self.access_point = self.file_system.add_access_point(
            "Files",
            path="/cache",
            create_acl=efs.Acl(owner_uid=_OWNER, owner_gid=_OWNER, permissions="700"),
            posix_user=efs.PosixUser(uid=_OWNER, gid=_OWNER),
        )

    def _endpoint(self, name: str, service: ec2.InterfaceVpcEndpointAwsService) -> None:
        """A way to a service, for functions alone. It costs by the hour."""
        made = self.vpc.add_interface_endpoint(
            name,
            service=service,
            subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
            open=False,
        )
        made.connections.allow_default_port_from(self.functions_group)
