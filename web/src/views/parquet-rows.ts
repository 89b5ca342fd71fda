/** Two versions of a Parquet file, in codes. Columns are read one by one, so that the values of one at a time are in memory. */
import type { AsyncBuffer, FileMetaData } from "hyparquet";
import { type TopColumn, topColumns } from "../model/parquet-file";
import { nestedText, valueText } from "../model/parquet-values";
import { type CodedColumn, type CodedTables, type Pair, pairedNames, ValueCodes } from "../model/row-codes";
import { type Identify, identities, kindOf, type RowKind, withoutMaps } from "../model/row-kinds";
import { expectRows, MOST_BYTES } from "../model/row-limits";
import { size } from "../model/text";
import { readFooter, readRows } from "./parquet-reader";

/** Bytes of a side, uncompressed. */
const MOST_UNCOMPRESSED_BYTES = 512 << 20;
const LIMITS = { bytes: MOST_BYTES, uncompressedBytes: MOST_UNCOMPRESSED_BYTES };

interface Side {
  readonly file: AsyncBuffer;
  readonly metadata: FileMetaData;
  readonly columns: readonly TopColumn[];
  readonly rows: number;
}

/** Codes the values of two files. `progress` is called with the number of columns that are read, and that of all. Errors are sentences. */
export async function codeParquet(
  files: Pair<ArrayBuffer>,
  titles: Pair<string>,
  progress: (read: number, all: number) => void,
): Promise<CodedTables> {
  const before = await named(titles[0], () => open(files[0]));
  const after = await named(titles[1], () => open(files[1]));
  const pairs = pairedNames([before.columns.map(({ name }) => name), after.columns.map(({ name }) => name)]);
  const columns: CodedColumn[] = [];
  for (const [left, right] of pairs) {
    progress(columns.length, pairs.length);
    columns.push(
      await codeColumn(
        [before, after],
        [left === undefined ? undefined : before.columns[left], right === undefined ? undefined : after.columns[right]],
        titles,
      ),
    );
  }
  return { columns, rows: [before.rows, after.rows] };
}

async function open(bytes: ArrayBuffer): Promise<Side> {
  const file: AsyncBuffer = { byteLength: bytes.byteLength, slice: async (start, end) => bytes.slice(start, end) };
  const metadata = await readFooter(file);
  const rows = Number(metadata.num_rows);
  expectRows(rows);
  const chunks = metadata.row_groups.flatMap((group) => group.columns);
  const uncompressed = chunks.reduce((sum, chunk) => sum + Number(chunk.meta_data?.total_uncompressed_size ?? 0), 0);
  if (uncompressed > MOST_UNCOMPRESSED_BYTES)
    throw new Error(`it has ${size(uncompressed)} uncompressed, and the page compares up to ${size(MOST_UNCOMPRESSED_BYTES)}`);
  if (metadata.row_groups.reduce((sum, group) => sum + Number(group.num_rows), 0) !== rows)
    throw new Error("it is damaged: its parts have other numbers of rows than the file");
  const columns = topColumns(metadata.schema);
  const names = new Set(columns.map(({ name }) => name.toLowerCase()));
  if (names.size < columns.length) throw new Error("several of its columns have the same name");
  return { file, metadata, columns, rows };
}

async function codeColumn(sides: Pair<Side>, columns: Pair<TopColumn | undefined>, titles: Pair<string>): Promise<CodedColumn> {
  const name = (columns[1] ?? columns[0])?.name ?? "";
  const kinds = columns.map((column) => column && kindOf(column.elements)) as unknown as Pair<RowKind | undefined>;
  // A column that one side lacks is compared as if both had its type.
  const [before = kinds[1], after = kinds[0]] = kinds;
  const values = new ValueCodes();
  const codes: Int32Array[] = [];
  const place = `the column ${JSON.stringify(name)}`;
  const identify = await named(place, () => identities([before as RowKind, after as RowKind]));
  for (const side of [0, 1] as const) {
    const column = columns[side];
    const { rows } = sides[side];
    const coded = new Int32Array(rows);
    codes.push(coded);
    if (column) await named(`${titles[side]}, ${place}`, () => codeValues(sides[side], column, identify[side], values, coded));
  }
  return {
    name,
    types: [kinds[0]?.type, kinds[1]?.type],
    codes: codes as unknown as Pair<Int32Array>,
    texts: values.texts,
    measure: before?.measure === true || after?.measure === true || before?.family === "nested",
  };
}

async function codeValues(
  { file, metadata, rows }: Side,
  column: TopColumn,
  identify: Identify,
  codes: ValueCodes,
  coded: Int32Array,
) {
  const elements = withoutMaps(column.elements);
  const [read] = await readRows(file, metadata, [{ ...column, elements }], [0, rows], LIMITS);
  if (!read || read.failure) throw new Error(read?.failure.replace(/^This column cannot be read: /, "") ?? "it has no values");
  if (read.values.length !== rows) throw new Error(`it is damaged: it has ${read.values.length} values instead of ${rows}`);
  const [element] = elements;
  const show = (value: unknown) =>
    (elements.length > 1 || !element ? nestedText(value, elements) : valueText(value, element)) ?? "null";
  for (const [row, value] of read.values.entries()) coded[row] = codes.codeOf(identify(value), () => show(value));
}

/** Puts what a sentence is about before it. */
async function named<T>(subject: string, action: () => T | Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`${subject}: ${message.replace(/\.$/, "")}.`);
  }
}
