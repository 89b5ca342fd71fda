"""The surroundings of a program that a shell sets: environment variables and the working folder."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest


class Shell:
    """Variables and the working folder for one test; afterwards they are as before. The fixture ``shell`` has one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def export(self, name: str, value: str | Path) -> None:
        """Set a variable."""
        self._patch.setenv(name, str(value))

    def export_all(self, variables: Mapping[str, str]) -> None:
        """Set variables."""
        for name, value in variables.items():
            self.export(name, value)

    def unset(self, *names: str) -> None:
        """Remove variables; those that are not set may be named, too."""
        for name in names:
            self._patch.delenv(name, raising=False)

    def unset_below(self, *prefixes: str) -> None:
        """Remove all variables whose names begin with a prefix."""
        self.unset(*(name for name in os.environ if name.startswith(prefixes)))

    def name_nothing(self, home: Path) -> None:
        """Remove all that names a lake, a server or an account. The home folder becomes the working folder."""
        self.unset_below("GRAVELER_", "AWS_", "LAKECTL_")
        self.unset(*(name for name in os.environ if name.lower().endswith(("_proxy", "_bundle", "cert_file"))))
        self.unset("XDG_CONFIG_HOME")
        self.export("HOME", home)
        self.cd(home)

    def cd(self, folder: Path) -> None:
        """Change the working folder."""
        self._patch.chdir(folder)
