"""The data pipeline: import, export, datasets on branches, differences and garbage collection on Spark.

Needs the extra ``graveler[spark]``; nothing else in the package imports it.
"""
