"""Spark's internals that graveler uses, and the only code that does: its file writers, and its reading of files that were found
elsewhere. Reached through the JVM, since PySpark exposes neither.

Spark's writers commonly write under temporary names and rename, which is a copy on S3. For streams Spark has a protocol without
renames (``ManifestFileCommitProtocol``): each task writes to final locations under names that are never reused, and a manifest
lists the files of the tasks that count. Here it serves for ordinary frames: retries and speculation leave unlisted files, never a
file twice.

The classes are those of Spark 4.0, which EMR has, and 3.5; if they are missing, an error says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, unquote

from msgspec import Struct, msgpack
from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from graveler.errors import InvalidError, UnavailableError
from graveler.spark.connect import expect_jvm
from graveler.spark.error_translation import spark_errors
from graveler.spark.schemas import check_columns
from graveler.system.temporary_files import own_folder

_FILES: Final = "org.apache.spark.sql.execution.datasources"
_STREAMS: Final = "org.apache.spark.sql.execution.streaming"
_NAMES_IN_41: Final = {
    f"{_STREAMS}.FileStreamSinkLog": f"{_STREAMS}.sinks.FileStreamSinkLog",
    f"{_STREAMS}.MetadataLogFileIndex": f"{_STREAMS}.runtime.MetadataLogFileIndex",
}
"""Classes that Spark 4.1 moved to other packages, by their names before."""
_BLOCK: Final = 128 << 20
"""Bytes; the block size reported to Spark, at which a file may be split. Its own settings split it further."""
_CACHE_BYTES: Final = 1 << 40
_ROOT: Final = "https://lakefs.invalid"
"""The prefix of the roots of file indexes. Spark uses the root of an index only as its name. It lists it only when an index is
refreshed (``REFRESH TABLE`` of a view, ``refreshByPath("/")``): Hadoop's file system of this scheme cannot list, so that fails,
without a connection, and the index keeps its files. A folder would be found empty, or full of others."""
_BETWEEN: Final = "\n\x1f\n"
"""A separator between settings that occurs in none."""
_PLAIN_FILES: Final = "org.apache.hadoop.fs.RawLocalFileSystem"
"""Hadoop's local file system without a checksum file next to each file."""

Value = str | bool | int | float


class WrittenFile(Struct, frozen=True):
    """A file that Spark has written: its name below the folder, and its size in bytes."""

    name: str
    size: int


class FoundFile(Struct, frozen=True):
    """A file that Spark will read: ``url`` in Hadoop's form, not encoded; size in bytes, time in Unix seconds; ``folder`` is its
    folder in the dataset, whose names ``column=value`` are values of partition columns."""

    url: str
    size: int
    mtime: int
    folder: str = ""


def write_files(
    frame: DataFrame,
    folder: str,
    file_format: str,
    partition_by: Sequence[str] = (),
    options: Mapping[str, Value] | None = None,
) -> list[WrittenFile]:
    """Write a frame with Spark's own writer of a format below ``folder``, a Hadoop URL, with no rename and no copy. Returns the
    files that count; other files in the folder are from tasks that failed or ran twice.

    :class:`InvalidError` for what the format or the columns do not allow; :class:`UnavailableError` and those of
    :func:`~graveler.spark.error_translation.spark_errors` if the job fails.
    """
    engine = _Engine(frame.sparkSession)
    texts = _texts(options)
    check_columns(frame.schema, case_matters=engine.session.sessionState().conf().caseSensitiveAnalysis())
    with (
        TemporaryDirectory(dir=own_folder(), prefix="manifest-") as manifest,
        spark_errors(f"writing {file_format}"),
        engine.settings_in_tasks(),
    ):
        writer = engine.file_format(file_format, texts)
        query = frame._jdf.queryExecution()
        output = query.analyzed().output()
        configuration = engine.session.sessionState().newHadoopConfWithOptions(engine.map(texts))
        if folder.startswith("file:"):  # otherwise s3a, whose buffers are local files, would not find its own kind
            configuration.set("fs.file.impl", _PLAIN_FILES)
            configuration.setBoolean("fs.file.impl.disable.cache", True)
        protocol = engine.new(f"{_STREAMS}.ManifestFileCommitProtocol", "0", folder)
        log = engine.new(f"{_STREAMS}.FileStreamSinkLog", 1, engine.session, f"file://{manifest}", engine.none)
        protocol.setupManifestOptions(log, 0)
        engine.find(f"{_FILES}.FileFormatWriter").write(
            engine.session,
            query.executedPlan(),
            writer,
            protocol,
            engine.new(f"{_FILES}.FileFormatWriter$OutputSpec", folder, engine.map({}), output),
            configuration,
            engine.seq(engine.attributes(output, partition_by)),
            engine.none,
            engine.seq([]),
            engine.map(texts),
            0,
        )
        lines = (Path(manifest) / "0").read_text().splitlines()[1:]  # the first is the log's version
    begin = f"{folder}/".partition("://")[2].lstrip("/")
    written = []
    for line in lines:
        entry = json.loads(line)
        _, separator, name = unquote(entry["path"]).partition(begin)
        if not separator:
            raise UnavailableError(f"Spark wrote {entry['path']!r}, which is not below {folder!r}; nothing was linked")
        written.append(WrittenFile(name, int(entry["size"])))
    return written


def read_files(
    spark: SparkSession,
    files: Sequence[FoundFile],
    file_format: str,
    *,
    version: str,
    base: str = "",
    schema: StructType | str | None = None,
    options: Mapping[str, Value] | None = None,
) -> DataFrame:
    """Return a frame of exactly these files, without listing anything. Partition columns are those of the files' folders below
    ``base``, with values and types as Spark infers them, and filters on them skip files.

    Spark treats two such frames as equal, and shares caches and exchanges between them, if they have the same files, folders,
    ``base`` and ``version``. Plans show the latter two; ``version`` names the repository and the commit.

    :class:`InvalidError` if no schema is given or can be inferred, or for folders with different partition columns.
    """
    engine = _Engine(spark)
    texts = _texts(options)
    with spark_errors(f"reading {file_format} from {base!r}"):
        struct = spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema
        engine_schema = engine.none if struct is None else engine.some(engine.schema(struct))
        reader = engine.file_format(file_format, texts)
        folders = sorted({file.folder for file in files})
        columns, values = _partitions(engine, base, folders, engine_schema)
        matters = engine.session.sessionState().conf().caseSensitiveAnalysis()
        names = {name if matters else name.lower() for name in columns.fieldNames()}
        layers = _layers(files, by_folder=bool(names)) or [[]]
        statuses = [engine.statuses(layer) for layer in layers]
        if struct is None:
            every = statuses[0] if len(layers) == 1 else engine.statuses([*{file.url: file for file in files}.values()])
            inferred = reader.inferSchema(engine.session, engine.map(texts), every)
            if inferred.isEmpty():
                raise InvalidError(f"no schema can be inferred from the files of {base!r}; give one with schema=")
            data = inferred.get()
        else:
            fields = [field for field in struct.fields if (field.name if matters else field.name.lower()) not in names]
            data = engine.schema(StructType(fields))
        frames = [
            engine.relation(
                _root(engine, version, base, layer),
                layer,
                layer_files,
                reader,
                columns,
                data.asNullable(),
                values,
                texts,
            )
            for layer, layer_files in zip(layers, statuses, strict=True)
        ]
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def _partitions(engine: "_Engine", base: str, folders: Sequence[str], engine_schema: Any) -> tuple[Any, dict[str, Any]]:
    """Return the schema of the partition columns, and each folder's row of values; no columns and no rows if the files have
    none."""
    root = f"/{base.strip('/')}"
    conf = engine.session.sessionState().conf()
    spec = engine.module(f"{_FILES}.PartitioningUtils").parsePartitions(
        engine.seq([engine.path(f"/{folder}") for folder in folders]),
        conf.partitionColumnTypeInferenceEnabled(),
        engine.set([engine.path(root)]),
        engine_schema,
        conf.caseSensitiveAnalysis(),
        conf.validatePartitionColumns(),
        conf.sessionLocalTimeZone(),
        *((False,) if engine.is_new else ()),
    )
    columns, partitions = spec.partitionColumns(), spec.partitions()
    if columns.isEmpty():
        return columns, {}
    if partitions.size() != len(folders):
        outside = next(folder for folder in folders if "=" not in folder[len(base) :])
        raise InvalidError(
            f"some files of {base!r} are in partitions, but others are not (in {outside!r}); read them separately"
        )
    return columns, {folder: partitions.apply(index).values() for index, folder in enumerate(folders)}


def _root(engine: "_Engine", version: str, base: str, layer: Sequence[FoundFile]) -> str:
    """Return the name of a file index, by which alone Spark distinguishes them: it covers all that its rows depend on. Schema,
    format and options are compared separately."""
    conf = engine.session.sessionState().conf()
    how = [conf.sessionLocalTimeZone(), conf.validatePartitionColumns()]  # values of partition columns depend on these
    digest = sha256(msgpack.encode((how, base, layer))).hexdigest()[:32]
    shown = quote(f"{version}/{base}").replace(
        "_spark_metadata", "%5Fspark_metadata"
    )  # below which Spark reads nothing
    return f"{_ROOT}/{shown}/{digest}"


def _layers(files: Sequence[FoundFile], *, by_folder: bool) -> list[list[FoundFile]]:
    """Return the files in groups such that no file is twice in one, and all files of a physical folder have the same values.
    Usually one group; more only if objects were copied within the lake, or imported in another arrangement."""
    layers: list[tuple[set[str], dict[str, str], list[FoundFile]]] = []
    for file in files:
        place = file.url.rpartition("/")[0]
        folder = file.folder if by_folder else ""
        fits = (
            candidate
            for candidate in layers
            if file.url not in candidate[0] and candidate[1].get(place, folder) == folder
        )
        layer = next(fits, None)
        if layer is None:
            layers.append(layer := (set(), {}, []))
        layer[0].add(file.url)
        layer[1][place] = folder
        layer[2].append(file)
    return [members for _, _, members in layers]


class _Engine:
    """The JVM behind a session."""

    def __init__(self, spark: SparkSession) -> None:
        expect_jvm(
            spark, "reading or writing files of a dataset", "run the job in the cluster, with a session of its own"
        )
        self._spark: Any = spark
        jvm: Any = self._spark._jvm
        self.jvm: Any = jvm
        self.session: Any = self._spark._jsparkSession
        self._classes: dict[str, Any] = {}
        self.none: Any = jvm.scala.Option.empty()
        self.is_new: bool = not spark.version.startswith("3.")
        """True for Spark 4.0, False for 3.5."""

    def file_format(self, name: str, options: Mapping[str, str]) -> Any:
        """Return Spark's reader and writer of a format. :class:`InvalidError` for one that is not file-based."""
        source = self.new(
            f"{_FILES}.DataSource",
            self.session,
            name,
            self.seq([]),
            self.none,
            self.seq([]),
            self.none,
            self.map(options),
            self.none,
        )
        try:
            source_format = source.providingInstance()
        except Py4JJavaError as error:
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            source_format = None
        if source_format is None or not self.find("java.lang.Class").forName(f"{_FILES}.FileFormat").isInstance(
            source_format
        ):
            raise InvalidError(f"{name!r} is not a file format; use parquet, orc, json, csv or text")
        return source_format

    @contextmanager
    def settings_in_tasks(self) -> Iterator[None]:
        """Make the session's settings known to tasks started in this block, and effective on the driver. Spark does the same for
        its queries (``SQLExecution.withNewExecutionId``); without it tasks have the defaults, under which expressions may have
        other values. A short call of the JVM per setting."""
        context = self._spark.sparkContext._jsc.sc()
        sessions = self.jvm.SparkSession
        active, before = sessions.getActiveSession(), context.getLocalProperties()
        context.setLocalProperties(before.clone())
        try:
            sessions.setActiveSession(self.session)
            for line in str(self.session.sessionState().conf().getAllConfs().mkString(_BETWEEN)).split(_BETWEEN):
                name, _, value = line.partition(" -> ")
                if name.startswith("spark"):
                    context.setLocalProperty(name, value)
            yield
        finally:
            context.setLocalProperties(before)
            if active.isDefined():
                sessions.setActiveSession(active.get())
            else:
                sessions.clearActiveSession()

    def attributes(self, output: Any, names: Sequence[str]) -> list[Any]:
        """Return the columns of a plan by name. :class:`InvalidError` for a missing one."""
        resolver = self.session.sessionState().conf().caseSensitiveAnalysis()
        attributes = [output.apply(index) for index in range(output.size())]
        chosen = []
        for name in names:
            same = [a for a in attributes if a.name() == name or (not resolver and a.name().lower() == name.lower())]
            if len(same) != 1:
                column_names = ", ".join(str(attribute.name()) for attribute in attributes)
                raise InvalidError(f"the frame has {len(same)} columns {name!r} to partition by; it has {column_names}")
            chosen.append(same[0])
        if chosen and len(chosen) == len(attributes):
            raise InvalidError("a frame cannot be partitioned by all of its columns; none would be left for the files")
        return chosen

    def statuses(self, files: Sequence[FoundFile]) -> Any:
        """Return Hadoop's file statuses, made from the lake's metadata: all at once, by the log of a stream."""
        with TemporaryDirectory(dir=own_folder(), prefix="files-") as folder:
            log = Path(folder) / "_spark_metadata"
            log.mkdir()
            lines = [json.dumps(_status(file)) for file in files]
            (log / "0").write_text("\n".join(["v1", *lines]))
            options = self.map({"recursiveFileLookup": "true"})  # skips the search for partitions
            place = self.path(f"file://{folder}")
            index = self.new(f"{_STREAMS}.MetadataLogFileIndex", self.session, place, options, self.none)
            return index.allFiles()

    def relation(
        self,
        name: str,
        files: Sequence[FoundFile],
        statuses: Any,
        reader: Any,
        columns: Any,
        data: Any,
        values: Mapping[str, Any],
        options: Mapping[str, str],
    ) -> DataFrame:
        """Return a frame of files, in which each physical folder has one row of partition values. Spark identifies it by its
        ``name``."""
        root = self.path(name)
        kind = self.find("java.lang.Class").forName("org.apache.hadoop.fs.FileStatus")
        cache = self.new(f"{_FILES}.SharedInMemoryCache", _CACHE_BYTES, -1).createForNewClient()
        cache.putLeafFiles(root, statuses.toArray(self.module("scala.reflect.ClassTag").apply(kind)))
        folders = {file.url.rpartition("/")[0]: file.folder for file in files} if values else {}
        partitions = [
            self.new(f"{_FILES}.PartitionPath", values[folder], self.path(place)) for place, folder in folders.items()
        ]
        index = self.new(
            f"{_FILES}.InMemoryFileIndex",
            self.session,
            self.seq([root]),
            # Without partitions, include files that are not directly in the root.
            self.map(options if values else {**options, "recursiveFileLookup": "true"}),
            self.some(data),
            cache,
            self.some(self.new(f"{_FILES}.PartitionSpec", columns, self.seq(partitions))),
            self.none,
        )
        relation = self.new(
            f"{_FILES}.HadoopFsRelation", index, columns, data, self.none, reader, self.map(options), self.session
        )
        frame: DataFrame = self._spark.read._df(self.session.baseRelationToDataFrame(relation))
        return frame

    # Conversion of Python's values to Scala's

    def schema(self, schema: StructType) -> Any:
        """Return a schema in the JVM's form."""
        return self.find("org.apache.spark.sql.types.DataType").fromJson(schema.json())

    def path(self, path: str) -> Any:
        """Return a Hadoop path."""
        return self.new("org.apache.hadoop.fs.Path", path)

    def seq(self, values: Sequence[Any]) -> Any:
        """Return a sequence."""
        return self.jvm.PythonUtils.toSeq(list(values))

    def set(self, values: Sequence[Any]) -> Any:
        """Return a set."""
        return self.seq(values).toSet()

    def map(self, values: Mapping[str, str]) -> Any:
        """Return a map of texts."""
        return self.jvm.PythonUtils.toScalaMap(dict(values))

    def some(self, value: Any) -> Any:
        """Return an option with a value."""
        return self.jvm.scala.Option.apply(value)

    def module(self, name: str) -> Any:
        """Return the singleton of a Scala object, whose methods are not all static."""
        return getattr(self.find(f"{name}$"), "MODULE$")

    def find(self, name: str) -> Any:
        """Return a class. :class:`UnavailableError` if this Spark has none of this name."""
        if name in self._classes:
            return self._classes[name]
        java_class = self._class(name)
        if not isinstance(java_class, JavaClass) and name in _NAMES_IN_41:
            java_class = self._class(_NAMES_IN_41[name])
        if not isinstance(java_class, JavaClass):
            version = self._spark.version
            raise UnavailableError(
                f"Spark {version} has no {name}; datasets are read and written with Spark 4.1, 4.0 (EMR's emr-spark-8.1.0 and "
                "emr-spark-8.0.0) or 3.5"
            )
        self._classes[name] = java_class
        return java_class

    def _class(self, name: str) -> Any:
        """Return a class; a package if this Spark has none of this name."""
        member: Any = self.jvm
        for part in name.split("."):  # each is a request to the JVM
            member = getattr(member, part)
        return member

    def new(self, name: str, *arguments: Any) -> Any:
        """Return a new instance of a class."""
        return self.find(name)(*arguments)


def _status(file: FoundFile) -> dict[str, object]:
    scheme, _, path = file.url.partition("://")
    return {
        "path": f"{scheme}://{quote(path)}",
        "size": file.size,
        "isDir": False,
        "modificationTime": file.mtime * 1000,
        "blockReplication": 1,
        "blockSize": _BLOCK,
        "action": "add",
    }


def _texts(options: Mapping[str, Value] | None) -> dict[str, str]:
    """Return options in Spark's form."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }
