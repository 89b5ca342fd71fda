"""The Python API: handles on repositories, refs and objects, as the package ``lakefs`` names them.

A handle is a name and asks nothing until a verb is called. ``lake`` opens and creates lakes; ``repository``, ``reference``,
``branch``, ``tag`` and ``stored`` are the handles; ``reader`` and ``writer`` are the files; ``transaction`` is all or nothing;
``importing`` takes over what lies elsewhere.
"""
