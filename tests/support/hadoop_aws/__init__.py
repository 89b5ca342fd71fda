"""The jars of Hadoop 3.4.2, its connector to S3 and Spark's binding for its committers, fetched by Maven once, 90 MB.

Spark 4.0 brings Hadoop 3.4.1, with which that connector does not run: these jars stand before Spark's in the class path.
"""

from functools import cache
from pathlib import Path
from typing import Final

from tests.support.s3a import POM, maven_jars

_POM: Final = Path(__file__).parent / "pom.xml"


@cache
def hadoop_aws_jars() -> tuple[Path, ...]:
    """The jars; none where they cannot be fetched, as in :func:`tests.support.s3a.s3a_jars`. Spark's own SLF4J stays."""
    return tuple(jar for jar in maven_jars("hadoop-aws", _POM, parent=POM) if not jar.name.startswith("slf4j-"))
