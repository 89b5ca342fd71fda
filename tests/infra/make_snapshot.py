"""``python -m tests.infra.make_snapshot`` writes the reviewed templates again: look at the difference before it is committed."""

import json
import sys
import tempfile
from pathlib import Path

from tests.infra.test_stacks import SNAPSHOT, snapshot
from tests.infra.tools import synthesise

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        done = synthesise(Path(folder))
        if done.returncode:
            sys.exit(done.stderr)
        SNAPSHOT.write_text(json.dumps(snapshot(Path(folder)), indent=1, sort_keys=True) + "\n")
