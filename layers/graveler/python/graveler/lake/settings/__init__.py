"""The settings of a repository, and the rules that follow from them."""
