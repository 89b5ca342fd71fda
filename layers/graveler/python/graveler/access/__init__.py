"""Access: identities of callers, and their permissions.

==================  ============================================================================
authentication      :class:`~graveler.access.authentication.Access`: from a header or a cookie to an identity
permissions         what a role may do, and where
keys                access keys in the table: made, checked, listed, revoked
tokens              bearer tokens, which a login returns
aws_login           the signer of an identity token: ``identity_tokens`` (its request), ``sts`` (asking AWS), ``sts_hosts``
principal_rules     which AWS principals log in, and for what; ``aws_principals``: their names, and patterns of them
verified            what was verified a moment ago
failure_limits      how often an address may be wrong
sources             which addresses may be imported or linked
audit               a line for each change
refusals            errors of refusals
==================  ============================================================================

This room knows the table through its port, and nothing of repositories, branches and objects but their names.
"""
