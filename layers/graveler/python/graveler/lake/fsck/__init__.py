"""fsck: looks at everything that one repository can reach, says what is wrong and what it affects, and rebuilds what it can.

From the bottom up: ``findings`` (what is reported), ``items`` (reading a table of which some items are damaged), ``history``
(which refs reach which commits), ``objects`` (are they there), ``commits`` (both copies of each record), ``files`` (what one
metarange or range has to keep), ``trees`` (all of them, each read once), ``refs`` and ``staged`` (the table), ``rebuild`` (where
a lost file can be had from), ``check`` (the whole).
"""
