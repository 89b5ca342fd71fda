"""Jobs for ``spark-submit`` and EMR Serverless: one small module each, which is also its entry point.

``frame`` is their shared code. Run one as ``python -m graveler.spark.jobs.<job> --help``, or give its file to ``spark-submit``.
"""
