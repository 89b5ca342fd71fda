"""The function ``maintain``: long operations from their queue, and the clean-up that the clock starts."""

from graveler.functions.maintenance import maintain_handler

handler = maintain_handler()
