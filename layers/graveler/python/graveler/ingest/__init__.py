"""Ingest: objects that land in a bucket or a folder appear on a branch, and become commits, by themselves.

==================  ====================================================================================
:mod:`.rules`       what is taken, where it goes, and when it is committed; kept in the table
:mod:`.events`      what object stores say when an object comes or goes
:mod:`.windows`     clock windows, as ``2026/01/31/14:00/``
:mod:`.ledger`      the last event of each object, so that an older one never undoes a newer one
:mod:`.pending`     what was staged since the last commit of a rule, and whether a commit is due
:mod:`.waiting`     which repositories have something pending, so that the clock looks at no others
:mod:`.autocommit`  the commit that is due, once, whoever dies meanwhile
:mod:`.due`         the clock: what is due in all repositories
:mod:`.status`      what there is to say of a rule at work
:mod:`.handover`    commits that are too much for one call, to whoever works on operations
:mod:`.source`      looking at what the store holds now
:mod:`.matching`    which rules take an object
:mod:`.judging`     what the events of one object come to
:mod:`.results`     what became of events, as values
:mod:`.ingester`    a batch of events in, a result for each out
:mod:`.reconcile`   comparing a source with its branch, and repairing
:mod:`.operation`   the same in the background
:mod:`.watch`       events of a folder, by looking at it
:mod:`.watching`    ingest by these events; what fails is tried again
==================  ====================================================================================

Nothing is copied: entries link to where the objects landed.
"""
