"""A branch's uncommitted changes: items in the table under a *token*, in the order of their keys.

A branch has one open token, which takes new changes, and a list of sealed ones, which commits are taking out. This room knows
tokens and the changes staged under them; the branch itself lists its tokens (``history``), and ``lake`` and
``docs/concurrency.md`` describe the protocol that moves them.
"""
