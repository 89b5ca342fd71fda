"""The folders of ``graveler run --folder``: prefixes of a branch as files, for programs that know only files."""
