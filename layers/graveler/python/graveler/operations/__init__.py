"""Operations: work that outlives the request that asked for it.

An operation is an item of the table: the request, its worker and the worker's claim, its progress, its result. Any process of the
lake that queries it reads that item; if its worker has died, the querying process takes it over. Work done twice this way has the
effect of once, since it runs under the operation's ID as its request id (promise C4).

It knows the use cases of ``lake``; it must not know HTTP, nor where it runs.
"""
