"""Ingest: objects that arrive in a bucket or a folder appear on a branch, and become commits, automatically.

=============================  ======================================================================================
:mod:`.rules`                  which objects are taken, where they go, and when they are committed; kept in the table
:mod:`.events`                 the events that object stores send when an object is created or deleted
:mod:`.windows`                clock windows, as ``2026/01/31/14:00/``
:mod:`.ledger`                 the last event of each object, so that an older one never undoes a newer one
:mod:`.pending_changes`        changes staged since the last commit of a rule, and whether a commit is due
:mod:`.waiting_repositories`   the repositories with pending changes, so that the clock checks no others
:mod:`.autocommit`             the commit that is due, made once even if processes die
:mod:`.due_commits`            the clock: the commits that are due in all repositories
:mod:`.status`                 the status of a rule
:mod:`.handover`               the hand-over of commits that are too much for one call to background operations
:mod:`.source`                 reads of the store's current contents
:mod:`.rule_tree`              the rules that take an object
:mod:`.judgement`              the outcome of an object's events
:mod:`.results`                the results of events, as values
:mod:`.ingester`               a batch of events in, a result for each out
:mod:`.reconcile`              comparison of a source with its branch, and repair
:mod:`.operation`              the same in the background
:mod:`.folder_watch`           events of a folder, by polling it
:mod:`.watcher`                ingest by these events; failures are retried
=============================  ======================================================================================

Nothing is copied: entries link to where the objects arrived.
"""
