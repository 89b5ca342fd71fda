"""IAM, evaluated offline: whether what the deployment does is allowed by the policies that it is deployed with.

Emulators allow everything, or ignore what they do not know. Here, anything unknown is a failure.

==================  ==================================================================================
``conditions``      wildcards, policy variables, condition operators
``policies``        statements, and the decision about a request
``templates``       the stacks' templates with their intrinsics resolved, and the policies in them
``declared``        calls that the templates themselves ask services to make: routes, rules, alarms, …
``operations``      which actions on which resources a call of an AWS client needs
``encrypted``       what services ask of the KMS key that encrypts what they keep
``recorder``        has each function of a deployment note its calls
``rights``          rights that no call uses
==================  ==================================================================================

No library does this. moto's ``iam.access_control`` knows policies of identities only, and no conditions. ministack's
``AUTH=true`` takes an operator that it does not know for one that does not hold. policy_sentry, parliament and cloudsplaining
read policies without a request. PrincipalMapper wants the graph of a live account.
"""
