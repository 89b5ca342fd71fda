"""The CDK app: one stack for each concern, no logic."""
