"""The Python API: handles on repositories, refs and objects, named as in the package ``lakefs``.

A handle is only a name; it makes no request until one of its verbs is called. ``lake`` opens and creates lakes; ``repository``,
``reference``, ``branch``, ``tag`` and ``stored`` are the handles; ``transaction`` is all or nothing; ``import_manager`` imports
existing objects without copying them; ``listing`` is what lists them, and ``tables`` and ``log_graph`` are what notebooks show.
"""
