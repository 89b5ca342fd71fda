"""The function ``setup``: the first access key of a deployment, for CloudFormation."""

from graveler.functions.first_key import first_key_handler

handler = first_key_handler()
