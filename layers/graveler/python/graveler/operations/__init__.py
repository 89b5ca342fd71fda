"""Operations: work that outlives the request that asked for it.

An operation is an item of the table: what is asked for, who works on it and until when, how far it is, what came of it.
Whoever asks after it (any process of the lake) reads that item; if its worker has died, the one who asks takes it over. What is
done twice by that has the effect of once, since the work runs under the operation's ID as its request id (promise C4).

It knows the use cases of ``lake``; it must not know HTTP, nor where it runs.
"""
