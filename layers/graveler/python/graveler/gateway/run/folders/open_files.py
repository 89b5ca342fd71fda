"""Files that are open in a process which may write to them."""

import errno
import fcntl
import os
import signal
import sys


def has_writer(path: str) -> bool:
    """Return whether a process has a file open for writing, or has mapped it so. Linux knows, for files of this user on a local
    disk; elsewhere the answer is False. Cost: some system calls."""
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # whoever reads it will raise the reason
        return False
    try:
        # The lease ends at once; by default, somebody who opens the file for writing meanwhile would end this process by SIGIO.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False
