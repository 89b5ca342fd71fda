"""Reading a repository: refs, objects, listings, differences, blame."""
