"""The port *objects* and its adapters: a folder, S3, memory; a cache of immutable files."""
