"""Plain values and the rules about them: addresses, error codes, names of data files, ignored files."""
