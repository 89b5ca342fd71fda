"""The verbs of an open repository, by what they are about. :class:`graveler.lake.repository.OpenRepository` has them all."""
