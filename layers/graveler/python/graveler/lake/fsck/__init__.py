"""The check of everything that one repository can reach: reports damage and its effects, and rebuilds what it can.

From the bottom up: ``findings`` (the report), ``items`` (reading a table with damaged items), ``history`` (which refs reach
which commits), ``objects`` (whether they exist), ``commit_records`` (both copies of each record), ``files`` (the rules for one
metarange or range), ``trees`` (all of them, each read once), ``refs`` and ``staged_changes`` (the table), ``rebuild`` (sources
for lost files), ``check`` (the whole).
"""
