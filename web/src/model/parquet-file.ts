/** A Parquet file as its footer describes it: columns with their types, statistics and sizes. */
import type { ColumnChunk, FileMetaData, SchemaElement, Statistics } from "hyparquet";
import { size } from "./text";

type StoredValue = NonNullable<Statistics["min_value"]>;

const MAGIC_BYTES = 4;
const TAIL_BYTES = 8;
const LEAST_BYTES = 12;
/** Deepest schema that the page reads: levels of groups in groups. */
const DEEPEST = 100;
/** Longest footer that the page reads, in bytes. */
const MOST_FOOTER_BYTES = 32 << 20;

/** A column that holds values; one of a nested type has a path of several names. */
export interface ParquetColumn {
  readonly path: readonly string[];
  readonly element: SchemaElement;
  /** Its type as people call it: the logical one, or else the stored one. */
  readonly type: string;
  readonly physical: string;
  readonly nullable: boolean;
  readonly repeated: boolean;
  /** Number of nulls; undefined where the footer does not say. */
  readonly nulls: number | undefined;
  readonly values: number;
  /** Smallest and largest value as they are stored; undefined where a part of the file has none. */
  readonly least: StoredValue | undefined;
  readonly largest: StoredValue | undefined;
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
  readonly codecs: readonly string[];
  readonly encodings: readonly string[];
  readonly encrypted: boolean;
}

/** What a file is, from its footer. */
export interface ParquetFile {
  readonly rows: number;
  readonly columns: readonly ParquetColumn[];
  /** Columns of a row: a nested one stands for all in it. */
  readonly names: readonly string[];
  readonly codecs: readonly string[];
  readonly writer: string;
  readonly groups: number;
}

/** Where the footer is, or why there is none that the page reads. `tail` has the last eight bytes, or all of a shorter file. */
export function footerRange(tail: Uint8Array, fileBytes: number): readonly [start: number, end: number] | string {
  if (fileBytes < LEAST_BYTES)
    return `This is no Parquet file: it has ${size(fileBytes)}, and the smallest has ${LEAST_BYTES} B.`;
  const magic = String.fromCharCode(...tail.subarray(MAGIC_BYTES));
  if (magic === "PARE") return "This Parquet file has an encrypted footer. The page has no keys, so it cannot read it.";
  if (magic !== "PAR1")
    return "This is no whole Parquet file: it does not end with PAR1. It may have been cut, or overwritten while it was copied.";
  const length = new DataView(tail.buffer, tail.byteOffset).getUint32(0, true);
  if (length + LEAST_BYTES > fileBytes) return "This Parquet file is damaged: its footer says that it is longer than the file.";
  if (length > MOST_FOOTER_BYTES)
    return `The footer of this Parquet file has ${size(length)}; the page reads up to ${size(MOST_FOOTER_BYTES)}.`;
  return [fileBytes - TAIL_BYTES - length, fileBytes];
}

/** A column of a row: its part of the schema, and where it is among the columns with values. */
export interface TopColumn {
  readonly name: string;
  readonly elements: readonly SchemaElement[];
  readonly firstLeaf: number;
  readonly leaves: number;
}

/** Returns the columns of a row. Throws an error for a schema that is no tree, or a very deep one. */
export function topColumns(schema: readonly SchemaElement[]): TopColumn[] {
  expectShallow(schema);
  const columns: TopColumn[] = [];
  let place = 1;
  let leaf = 0;
  while (place < schema.length) {
    const start = place;
    const firstLeaf = leaf;
    for (let open = 1; open > 0; place += 1) {
      const element = schema[place];
      if (!element) throw new Error("the schema in the footer ends too early");
      open += (element.num_children ?? 0) - 1;
      if (!element.num_children) leaf += 1;
    }
    const elements = schema.slice(start, place);
    columns.push({ name: elements[0]?.name ?? "", elements, firstLeaf, leaves: leaf - firstLeaf });
  }
  return columns;
}

function expectShallow(schema: readonly SchemaElement[]): void {
  const open: number[] = [];
  for (const element of schema) {
    while (open.at(-1) === 0) open.pop();
    if (open.length) open.push((open.pop() ?? 0) - 1);
    if (element.num_children) open.push(element.num_children);
    if (open.length > DEEPEST) throw new Error(`its schema has more than ${DEEPEST} levels, and the page reads no more`);
  }
}

/** Describes a file by its footer. */
export function describeParquet(metadata: FileMetaData): ParquetFile {
  const tops = topColumns(metadata.schema);
  const columns: ParquetColumn[] = [];
  for (const top of tops) {
    for (const { path, element, nullable, repeated } of leavesOf(top.elements)) {
      const chunks = metadata.row_groups.map((group) => group.columns[columns.length]);
      columns.push({
        path,
        element,
        nullable,
        repeated,
        type: typeText(element),
        physical: physicalText(element),
        ...summed(chunks),
      });
    }
  }
  return {
    rows: Number(metadata.num_rows),
    columns,
    names: tops.map((top) => top.name),
    codecs: unique(columns.flatMap((column) => column.codecs)),
    writer: metadata.created_by ?? "",
    groups: metadata.row_groups.length,
  };
}

interface Leaf {
  readonly path: readonly string[];
  readonly element: SchemaElement;
  readonly nullable: boolean;
  readonly repeated: boolean;
}

function leavesOf(elements: readonly SchemaElement[]): Leaf[] {
  const leaves: Leaf[] = [];
  const open: { readonly element: SchemaElement; left: number }[] = [];
  for (const element of elements) {
    const path = [...open.map((above) => above.element), element];
    if (element.num_children) {
      open.push({ element, left: element.num_children });
      continue;
    }
    leaves.push({
      path: path.map((part) => part.name),
      element,
      nullable: path.some((part) => part.repetition_type === "OPTIONAL"),
      repeated: path.some((part) => part.repetition_type === "REPEATED"),
    });
    for (let last = open.at(-1); last; last = open.at(-1)) {
      last.left -= 1;
      if (last.left > 0) break;
      open.pop();
    }
  }
  return leaves;
}

/** Adds up a column's parts in all row groups. */
function summed(chunks: readonly (ColumnChunk | undefined)[]) {
  const parts = chunks.flatMap((chunk) => (chunk?.meta_data ? [chunk.meta_data] : []));
  const filled = parts.filter((part) => part.num_values > 0n);
  const nulls = parts.map((part) => part.statistics?.null_count);
  const ends = filled.filter(({ statistics, num_values }) => statistics?.null_count !== num_values);
  return {
    nulls: nulls.some((count) => count === undefined)
      ? undefined
      : nulls.reduce<number>((sum, count) => sum + Number(count), 0),
    values: parts.reduce((sum, part) => sum + Number(part.num_values), 0),
    least: extreme(
      ends.map((part) => part.statistics?.min_value),
      -1,
    ),
    largest: extreme(
      ends.map((part) => part.statistics?.max_value),
      1,
    ),
    compressedBytes: parts.reduce((sum, part) => sum + Number(part.total_compressed_size), 0),
    uncompressedBytes: parts.reduce((sum, part) => sum + Number(part.total_uncompressed_size), 0),
    codecs: unique(parts.map((part) => part.codec ?? "unknown")),
    encodings: unique(parts.flatMap((part) => part.encodings ?? [])),
    encrypted: chunks.some((chunk) => chunk !== undefined && (chunk.crypto_metadata !== undefined || !chunk.meta_data)),
  };
}

function extreme(values: readonly (StoredValue | undefined)[], sign: 1 | -1): StoredValue | undefined {
  let best = values[0];
  for (const value of values) {
    if (value === undefined || best === undefined) return undefined;
    if (compare(value, best) * sign > 0) best = value;
  }
  return best;
}

function compare(left: StoredValue, right: StoredValue): number {
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    for (let place = 0; place < Math.min(left.length, right.length); place += 1) {
      const difference = (left[place] ?? 0) - (right[place] ?? 0);
      if (difference) return difference;
    }
    return left.length - right.length;
  }
  return left < right ? -1 : Number(left > right);
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

/** Returns a column's type as people call it. */
function typeText(element: SchemaElement): string {
  const { logical_type: logical, converted_type: converted, precision, scale } = element;
  if (logical) return logicalText(logical);
  if (converted === "DECIMAL") return `DECIMAL(${precision ?? "?"}, ${scale ?? 0})`;
  if (converted === "UTF8") return "STRING";
  return converted ?? physicalText(element);
}

function logicalText(logical: NonNullable<SchemaElement["logical_type"]>): string {
  switch (logical.type) {
    case "DECIMAL":
      return `DECIMAL(${logical.precision}, ${logical.scale})`;
    case "TIMESTAMP":
    case "TIME":
      return `${logical.type}(${logical.unit.toLowerCase()}${logical.isAdjustedToUTC ? ", UTC" : ""})`;
    case "INTEGER":
      return `${logical.isSigned ? "" : "U"}INT${logical.bitWidth}`;
    default:
      return logical.type;
  }
}

function physicalText({ type, type_length }: SchemaElement): string {
  return type === "FIXED_LEN_BYTE_ARRAY" ? `${type}(${type_length ?? "?"})` : (type ?? "unknown");
}
