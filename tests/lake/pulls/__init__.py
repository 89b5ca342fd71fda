"""Tests of pull requests."""
