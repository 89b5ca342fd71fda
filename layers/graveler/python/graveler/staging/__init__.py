"""A branch's uncommitted changes: items in the table under a *token*, in the order of their keys.

A branch has one open token, which takes new changes, and a list of sealed ones, which commits are taking out. This room knows
tokens and what is staged under them; which tokens a branch has is written in the branch itself (``history``), and the protocol
that moves them is told in ``lake`` and in ``docs/concurrency.md``.
"""
