"""Verbs in parts: merge, revert, cherry-pick, commit and import divided at keys, so that many processes, now or later, do them.

Three steps, each of which may be repeated, on any machine: *plan* (where to divide, from metaranges alone), *run* a part (its
tree, or the conflicts there), *publish* (the parts joined, one transaction). Their intermediate results lie in the object store,
under the operation's ID. The commit has the tree that one call gives (law F1), and is published by the same code.
"""
