"""What the verbs of a repository are asked: one frozen struct for each verb, and nothing but values.

A request can be stored and sent. What cannot (who works on it, deadlines, signs to stop) is in the context that it is run with
(:mod:`graveler.lake.context`). Its docstring is where a verb's meaning, cost and errors are said.
"""
