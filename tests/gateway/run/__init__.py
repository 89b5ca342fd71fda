"""``graveler run``."""
