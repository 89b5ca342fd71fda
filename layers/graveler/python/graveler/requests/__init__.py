"""The requests of a repository's verbs: one frozen struct for each verb, with values only.

A request can be stored and sent. Its context (:mod:`graveler.lake.context`) holds what cannot: the requester, deadlines and
stop signals. The docstring of a request states the verb's meaning, cost and errors.
"""
