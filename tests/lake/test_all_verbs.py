"""A process that has loaded all verbs loads nothing of the package when one is first called."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path

import graveler.server.worker
from graveler.lake.all_verbs import load_verbs
from graveler.lake.opening.folder import create_folder_lake
from graveler.model import ObjectEntry

load_verbs()
lake = create_folder_lake(Path(sys.argv[1]) / "lake")
known = {name for name in sys.modules if name.startswith(("graveler", "queue", "concurrent"))}
repository = lake.create_repository("repo", "local://repo")
(Path(sys.argv[1]) / "source").mkdir()
(Path(sys.argv[1]) / "source" / "file").write_bytes(b"1")
repository.import_folder("main", Path(sys.argv[1]) / "source", "imported/")
repository.create_branch("side", "main")
repository.upload("side", "k", b"1")
repository.link("side", ObjectEntry("l", "s3://elsewhere/l", 1, "1", 0))
commit = repository.commit("side", "one")
repository.merge("side", "main")
repository.revert("main", "main", parent_number=1)
repository.cherry_pick("main", commit.id)
repository.create_tag("v1", "main")
repository.copy("side", "k", "m")
repository.delete("side", ["k"])
repository.reset("side")
repository.undo("side")
repository.rename_branch("side", "other")
print(sorted({name for name in sys.modules if name.startswith(("graveler", "queue", "concurrent"))} - known))
"""


def test_who_has_loaded_all_verbs_loads_nothing_when_one_is_called(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
