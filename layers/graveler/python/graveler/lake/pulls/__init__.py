"""Pull requests: proposed merges, their comments and approvals, and their merges, which end them in one transaction."""
