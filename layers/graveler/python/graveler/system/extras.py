"""Extras: optional libraries, which ``pip install 'graveler[EXTRA]'`` adds. And the platforms on which graveler works."""

ON_WINDOWS = "graveler works on Linux and macOS; on Windows, run it in WSL, the Windows Subsystem for Linux"
"""The sentence for users of Windows."""


def not_installed(use: str, library: str | None, extra: str) -> str:
    """Return the sentence for a missing library: what needs it, and how to install it. ``library`` is a module's name."""
    package = (library or "").partition(".")[0]
    return f"{use} needs the package {package!r}, which is not installed; pip install 'graveler[{extra}]'"
