"""The recipes of ``docs/recipes`` that need more than a lake in a folder, each run as it stands on its page."""
