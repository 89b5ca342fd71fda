"""Tests of the filesystem of fsspec."""
