"""``python -m tests.infra.make_snapshot`` writes the reviewed templates again: look at the difference before it is committed."""

import json
import sys
import tempfile
from pathlib import Path

from tests.infra.conftest import OTHER
from tests.infra.test_stacks import SNAPSHOT, SNAPSHOT_OF_OTHER, snapshot
from tests.infra.tools import synthesise

if __name__ == "__main__":
    for file, settings in ((SNAPSHOT, {}), (SNAPSHOT_OF_OTHER, OTHER)):
        with tempfile.TemporaryDirectory() as folder:
            done = synthesise(Path(folder), **settings)
            if done.returncode:
                sys.exit(done.stderr)
            file.write_text(json.dumps(snapshot(Path(folder)), indent=1, sort_keys=True) + "\n")
