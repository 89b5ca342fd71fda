"""Listings of the commands are streams of pages."""

from graveler.paging import items as items
