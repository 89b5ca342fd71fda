"""Work in parts: merge, revert, cherry-pick, commit, import and rewriting divided at keys, so that many processes can share it.

The work has three steps, each of which may be repeated, on any machine: *plan* (divide the keys, by metaranges alone), *run* a
part (build its tree, or find its conflicts), *publish* (join the parts, in one transaction). Their intermediate results lie in
the object store, under the operation's ID. The commit has the tree that one call gives (law F1), and is published by the same
code.
"""
