"""Operations: work that outlives the request that asked for it.

An operation is an item of the table: the request, its worker and the worker's claim, its progress, its result. Any process of the
lake that queries it reads that item; if its worker has died, the querying process takes it over. Work done twice this way has the
effect of once, since it runs under the operation's ID as its request id (promise C4).

Work that is divided at keys has its plan, its parts and its publishing in :mod:`graveler.operations.parts`; a worker takes these
steps by :mod:`.steps`, which record its progress: all in one process (:mod:`.one_process`, under :mod:`.runner`), or each in a
function (:mod:`.machine`). :mod:`.operator` starts, joins, cancels and revives operations, :mod:`.store` keeps their items.

It knows the use cases of ``lake``; it must not know HTTP, nor where it runs.
"""
