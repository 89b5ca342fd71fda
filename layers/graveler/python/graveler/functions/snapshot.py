"""Renewal of a process that starts from a snapshot. SnapStart takes a snapshot of a function that Lambda has initialised, and all
processes of the function start from it.

https://docs.aws.amazon.com/lambda/latest/dg/snapstart-uniqueness.html
"""

import os
import random
import ssl
import sys
from typing import Final

from graveler.storage.aws_requests import renew_clients
from graveler.system import random_bytes

SNAPSHOT: Final = "snap-start"
"""Lambda's name for the initialisation of a function with SnapStart:
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html"""

_ENTROPY_BYTES: Final = 64


def renew_process() -> None:
    """Reseed the random generators, close all connections to AWS, and get new credentials.

    IDs, keys and nonces come from the kernel (``os.urandom``), which Lambda reseeds by itself; some are read ahead, and forgotten
    here. Two generators have a state in the process: Python's, which chooses pauses before retries, and OpenSSL's, for TLS.
    (``cryptography`` has an OpenSSL of its own, of which only a cipher is used.)
    """
    random.seed()
    random_bytes.forget()
    ssl.RAND_add(os.urandom(_ENTROPY_BYTES), _ENTROPY_BYTES)
    renew_clients()
    if "boto3" in sys.modules:
        sys.modules["boto3"].__dict__["DEFAULT_SESSION"] = None  # it has credentials, too
