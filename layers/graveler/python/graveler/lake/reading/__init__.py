"""Reading a repository: refs, objects, listings, differences, who changed what."""
