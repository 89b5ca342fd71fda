"""``graveler run``: a program whose writes become one commit, or none."""
