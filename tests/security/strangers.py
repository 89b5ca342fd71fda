"""Other users of the same machine."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE, S_ISSOCK
from typing import Final

import pytest

STRANGER: Final = 65_534
"""A user with no rights of their own (nobody's, on most systems)."""
_ACT: Final = """
import importlib, json, os, sys
modules, groups, gid, uid, umask = json.loads(sys.argv[1])
for module in modules:
    importlib.import_module(module)
os.setgroups(groups)
os.setgid(gid)
os.setuid(uid)
os.umask(umask)
exec(sys.argv[2], {"arguments": sys.argv[3:]})
"""
_REHEARSE: Final = """
import json, sys
exec(sys.argv[1], {"arguments": sys.argv[2:]})
print(json.dumps([name for name, module in sys.modules.items() if getattr(module, "__spec__", None)]))
"""


def rehearse(code: str, *arguments: object) -> tuple[str, ...]:
    """Run Python as this user. The modules that it loads: another user may be kept from where they are."""
    command = [sys.executable, "-c", _REHEARSE, code, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return (*json.loads(done.stdout.splitlines()[-1]), "shutil")  # which removes temporary files, later


def act(
    code: str,
    *arguments: object,
    groups: tuple[int, ...] = (),
    umask: int = 0o022,
    modules: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run Python as another user, with ``arguments``, when the ``modules`` are loaded. Only root may do so: elsewhere the test is
    skipped."""
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")
    who = json.dumps([modules, groups, STRANGER, STRANGER, umask])
    command = [sys.executable, "-c", _ACT, who, code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def let_through(folder: Path) -> None:
    """Let others go through the folders above ``folder``, as they may in a home or a data directory."""
    for above in folder.absolute().parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(S_IMODE(above.stat().st_mode) | 0o001)


def open_to_others(folder: Path, beyond: int = 0o077) -> list[str]:
    """Whatever in ``folder``, itself included, has any of the permission bits ``beyond``, which see :func:`os.chmod`."""
    return [f"{path} {S_IMODE(mode):o}" for path, mode in _all(folder) if mode & beyond]


def closed_to(folder: Path, needed_of_folders: int, needed_of_files: int) -> list[str]:
    """Whatever in ``folder`` lacks any of these permission bits."""
    return [
        f"{path} {S_IMODE(mode):o}"
        for path, mode in _all(folder)
        if (needed_of_folders if path.is_dir() else needed_of_files) & ~mode
    ]


def _all(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in (folder, *folder.rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:  # a temporary file
            continue
        if not S_ISSOCK(mode) and not path.is_symlink():
            yield path, mode
