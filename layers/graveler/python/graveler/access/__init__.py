"""Access: who asks, and what they may do.

==================  ============================================================================
authentication      :class:`~graveler.access.authentication.Access`: from a header or a cookie to who asks
permissions         what a role may do, and where
keys                access keys in the table: made, checked, listed, revoked
tokens              bearer tokens, which a login hands out
aws_login           who has signed an identity token: ``identity_tokens`` (what it asks), ``sts`` (asking AWS), ``sts_hosts``
principal_rules     which AWS principals log in, and for what; ``aws_principals``: their names, and patterns of them
verified            what was verified a moment ago
failures            how often an address may be wrong
sources             which addresses may be imported or linked
audit               a line for each change
errors              what is refused
==================  ============================================================================

This room knows the table through its port, and nothing of repositories, branches and objects but their names.
"""
