/** The lines that continue in code what the page shows, filled in with the true names. `tests/filesystem/test_use_it.py` runs them. */
import { folders, nameIn } from "./text";

export type PlaceKind = "object" | "folder" | "ref";

/** What the lines are about. A folder's path ends with a slash; that of a ref is empty. */
export interface Place {
  readonly repository: string;
  readonly ref: string;
  readonly path: string;
  readonly kind: PlaceKind;
}

/** Lines for one tool. */
export interface Recipe {
  readonly tool: "Python" | "pandas" | "DuckDB" | "Polars" | "Spark" | "Command line";
  readonly lines: string;
}

type Format = "parquet" | "csv" | "ndjson" | "arrow" | "json" | "text" | "bytes";

const FORMATS: Readonly<Record<string, Format>> = {
  parquet: "parquet",
  csv: "csv",
  tsv: "csv",
  ndjson: "ndjson",
  jsonl: "ndjson",
  arrow: "arrow",
  feather: "arrow",
  json: "json",
  txt: "text",
  log: "text",
  md: "text",
};

/** Returns the lines for every tool that can read what is at a place. */
export function recipesOf(place: Place): readonly Recipe[] {
  const recipes =
    place.kind === "object" ? objectRecipes(place) : place.kind === "folder" ? folderRecipes(place) : refRecipes(place);
  return recipes.map(([tool, lines]) => ({ tool, lines }));
}

/** Returns the setting that says where the lake behind this page is, for a shell. */
export function lakeSetting(origin: string): string {
  return `export GRAVELER_LAKE=${quoteShell(origin)}`;
}

/** Returns the lines that put a file, a folder, and the result of a program into a folder of a branch. */
export function putLines(place: Pick<Place, "repository" | "ref" | "path">): readonly string[] {
  const address = quoteShell(addressOf("lakefs", place));
  const object = `lake.repository(${quote(place.repository)}).branch(${quote(place.ref)}).object(${quote(`${place.path}hello.txt`)})`;
  return [`graveler put FILE ${address}`, `graveler import FOLDER ${address}`, python(`${object}.upload("hello\\n")`)];
}

type Lines = readonly (readonly [tool: Recipe["tool"], lines: string])[];

function objectRecipes(place: Place): Lines {
  const format = formatOf(place.path);
  const reader = `lake.repository(${quote(place.repository)}).ref(${quote(place.ref)}).object(${quote(place.path)}).reader()`;
  return [
    ["Python", python(`with ${reader} as file:\n        data = file.read()`)],
    ...pandasOfObject(place, format, reader),
    ...duckdbOfObject(place, format),
    ...polarsOfObject(place, format, reader),
    ...sparkOfData(place, format),
    ["Command line", `graveler get ${quoteShell(addressOf("lakefs", place))} ${quoteShell(localName(place.path))}`],
  ];
}

function folderRecipes(place: Place): Lines {
  const files = quoteSql(`${escapeGlob(addressOf("graveler", place))}**/*.parquet`);
  const handle = `lake.repository(${quote(place.repository)}).ref(${quote(place.ref)})`;
  const query = quote(`FROM ${files}`);
  const pattern = `${escapeGlob(addressOf("graveler", place))}**/*.parquet`;
  return [
    ["Python", python(`for item in ${handle}.objects(prefix=${quote(place.path)}):\n        print(item.path, item.size)`)],
    ["pandas", `import graveler.duckdb\n\nframe = graveler.duckdb.connect().sql(${query}).df()`],
    ["DuckDB", `import graveler.duckdb\n\ngraveler.duckdb.connect().sql(${query}).show()`],
    ["Polars", `import graveler.polars\n\nframe = graveler.polars.scan_parquet(${quote(pattern)}).collect()`],
    ...sparkOfData(place, "parquet"),
    [
      "Command line",
      `graveler ls -l ${quoteShell(addressOf("lakefs", place))}\ngraveler get -r ${quoteShell(addressOf("lakefs", place))} ${quoteShell(localName(place.path.slice(0, -1)))}`,
    ],
  ];
}

function refRecipes(place: Place): Lines {
  const objects = `lake.repository(${quote(place.repository)}).ref(${quote(place.ref)}).objects()`;
  const query = `SELECT path, size FROM objects(${quoteSql(`${place.repository}/${quoteRef(place.ref)}`)}) ORDER BY size DESC LIMIT 10`;
  const address = quoteShell(addressOf("lakefs", place));
  return [
    ["Python", python(`for item in ${objects}:\n        print(item.path, item.size)`)],
    ["pandas", python(`frame = ${objects}.to_pandas()`)],
    ["DuckDB", python(`for row in lake.sql(${quote(query)}):\n        print(row)`)],
    ["Polars", python(`frame = ${objects}.to_polars()`)],
    [
      "Spark",
      `import graveler.spark\n\nframe = graveler.spark.objects(spark, ${quote(place.repository)}, ${quote(place.ref)})`,
    ],
    ["Command line", `graveler ls -l ${address}\ngraveler log ${address.replace(/\/('?)$/, "$1")}`],
  ];
}

function pandasOfObject(place: Place, format: Format, reader: string): Lines {
  const read = { parquet: "read_parquet", csv: "read_csv", ndjson: "read_json", arrow: "read_feather", json: "read_json" }[
    format as string
  ];
  if (!read) return [];
  const options = format === "ndjson" ? ", lines=True" : place.path.endsWith(".tsv") ? ', sep="\\t"' : "";
  // To fsspec, which opens addresses for pandas, these are patterns and chains.
  if (/[*?[\]]|::/.test(place.path)) {
    return [
      [
        "pandas",
        `import graveler\nimport pandas\n\nwith graveler.open() as lake, ${reader} as file:\n    frame = pandas.${read}(file${options})`,
      ],
    ];
  }
  return [["pandas", `import pandas\n\nframe = pandas.${read}(${quote(addressOf("graveler", place))}${options})`]];
}

function duckdbOfObject(place: Place, format: Format): Lines {
  const read = { parquet: "read_parquet", csv: "read_csv", ndjson: "read_json", json: "read_json" }[format as string];
  if (!read) return [];
  const query = `FROM ${read}(${quoteSql(escapeGlob(addressOf("graveler", place)))})`;
  return [["DuckDB", `import graveler.duckdb\n\ngraveler.duckdb.connect().sql(${quote(query)}).show()`]];
}

function polarsOfObject(place: Place, format: Format, reader: string): Lines {
  if (format === "json") {
    return [
      [
        "Polars",
        `import graveler\nimport polars\n\nwith graveler.open() as lake, ${reader} as file:\n    frame = polars.read_json(file)`,
      ],
    ];
  }
  const scan = { parquet: "scan_parquet", csv: "scan_csv", ndjson: "scan_ndjson", arrow: "scan_ipc" }[format as string];
  if (!scan) return [];
  const separator = place.path.endsWith(".tsv") ? ', separator="\\t"' : "";
  const glob = /[*?[\]]/.test(place.path) ? ", glob=False" : "";
  const address = quote(addressOf("graveler", place));
  return [["Polars", `import graveler.polars\n\nframe = graveler.polars.${scan}(${address}${separator}${glob}).collect()`]];
}

function sparkOfData(place: Place, format: Format): Lines {
  const options = {
    parquet: "",
    csv: `, format="csv", header=True${place.path.endsWith(".tsv") ? ', sep="\\t"' : ""}`,
    ndjson: ', format="json"',
    json: ', format="json", multiLine=True',
    text: ', format="text"',
    bytes: undefined,
    arrow: undefined,
  }[format];
  if (options === undefined) return [];
  const path = place.kind === "folder" ? place.path.slice(0, -1) : place.path;
  const address = quote(addressOf("lakefs", { ...place, path }));
  return [["Spark", `import graveler.spark\n\nframe = graveler.spark.read(spark, ${address}${options})`]];
}

function python(body: string): string {
  return `import graveler\n\nwith graveler.open() as lake:\n    ${body}`;
}

function formatOf(path: string): Format {
  const name = path.toLowerCase().replace(/\.gz$/, "");
  return FORMATS[name.slice(name.lastIndexOf(".") + 1)] ?? "bytes";
}

/** Returns the address of a place. A slash in a ref is written `%2F`, and a percent sign `%25`; a path is never encoded. */
export function addressOf(scheme: "lakefs" | "graveler", place: Pick<Place, "repository" | "ref" | "path">): string {
  return `${scheme}://${place.repository}/${quoteRef(place.ref)}/${place.path}`;
}

function quoteRef(ref: string): string {
  return ref.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Returns a string as a literal of Python. Controls and direction marks are escapes, so the line shows what it means. */
export function quote(text: string): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\n", "\\n")
    .replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) => {
      const code = character.charCodeAt(0);
      return code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
    });
  return `"${escaped}"`;
}

/** Returns a string as a word of a POSIX shell; one with control characters as bash writes it. */
export function quoteShell(text: string): string {
  if (/^[\w./:=@%+,-]+$/.test(text)) return text;
  if (!/[\u0000-\u001f\u007f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(text))
    return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll("'", "\\'")
    .replaceAll("\n", "\\n")
    .replace(/[\u0000-\u001f\u007f]/g, (character) => `\\x${hex(character.charCodeAt(0), 2)}`)
    .replace(/[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (character) => `\\u${hex(character.charCodeAt(0), 4)}`);
  return `$'${escaped}'`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}

function quoteSql(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function escapeGlob(text: string): string {
  return text.replace(/[*?[]/g, "[$&]");
}

/** Returns a name for a download's file: the path's last one, with what no file's name can be replaced. */
function localName(path: string): string {
  const [, folder] = folders(path).at(-1) ?? ["", ""];
  const name = nameIn(path, folder);
  return /^\.{0,2}$/.test(name) ? "./download" : `./${name}`;
}
