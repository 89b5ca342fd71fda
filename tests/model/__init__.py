"""Exhaustive models of the protocols, small enough to search every order of their steps."""
