"""Campaigns: killed processes, failing stores and full disks. Short in ``make test``, long in ``make soak``."""
