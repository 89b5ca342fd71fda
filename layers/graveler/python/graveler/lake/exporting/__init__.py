"""Export: writing a ref's objects to a folder, only those that differ from an earlier export there.

``export`` is the use case, ``export_folder`` the folder with its marker, ``export_names`` the rules for file names.
"""
