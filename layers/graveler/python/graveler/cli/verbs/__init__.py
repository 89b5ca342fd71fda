"""The verbs, a module per family. Each function is one command: its signature is the command line, its docstring the help.

A verb parses its arguments, calls the lake, and prints. The lake and its types are imported inside the functions, so that
``graveler --help`` does not load them.
"""
