"""All verbs against the model of :mod:`tests.lake.test_model`, on DynamoDB's own engine and a real S3 server.

``GRAVELER_EXAMPLES=n`` runs n/50 examples instead of the short form.
"""

import os
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from tests.aws.scene import AwsScene
from tests.lake.support import TINY, write_files
from tests.lake.test_model import FOLDERS, RepositoryMachine

EXAMPLES = max(1, int(os.environ.get("GRAVELER_EXAMPLES", "100")) // 50)


class AwsMachine(RepositoryMachine):
    """The same on the AWS adapters."""

    def open(self) -> OpenRepository:
        scene = AwsScene(self.folder / "scene")
        self.clock.time = scene.clock.time  # DynamoDB removes what has expired by its own clock

        def lake() -> Lake:
            return Lake(scene.tables, scene.objects, clock=self.clock)

        self.reopen = lambda: lake().repository("repo")
        return lake().create_repository("repo", "mem://repo", split=TINY)


def test_verbs_agree_with_the_model_on_dynamodb_and_s3(tmp_path: Path) -> None:
    for number, files in enumerate(FOLDERS):
        (tmp_path / str(number)).mkdir()
        write_files(tmp_path / str(number), files)
    AwsMachine.folder = tmp_path
    run_state_machine_as_test(
        AwsMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.generate],  # an example takes seconds: the machine in memory is where failures are made small
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
