/**
 * Reads Parquet by ranges: the footer, then only those pages that hold the rows that are shown.
 *
 * Values come as they are stored (no logical type is applied to numbers and bytes), and each column is read by itself: what is wrong with one
 * does not hide the others.
 */

import {
  type AsyncBuffer,
  type Compressors,
  type FileMetaData,
  parquetMetadata,
  parquetRead,
  type RowGroup,
  type SchemaElement,
} from "hyparquet";
import { footerRange, type TopColumn, topColumns } from "../model/parquet-file";
import { readPageHeader } from "../model/parquet-pages";
import { size } from "../model/text";
import { compressorsOf } from "./parquet-codecs";

/** Loaded while the footer is read. */
const FIRST_PAGES = import("./first-pages");
const TAIL_BYTES = 64 << 10;
const SMALL_CHUNK_BYTES = 128 << 10;
const MOST_AT_ONCE_BYTES = 1 << 20;
const HEADER_BYTES = 4 << 10;
/** How many rows are looked for at the beginnings of pages; for more, pages are read as a whole. */
const MOST_FIRST_ROWS = 1000;
const MOST_HEADER_BYTES = 1 << 20;

/** How much of a column is read at once, as it is stored and uncompressed. */
export interface ReadLimits {
  readonly bytes: number;
  readonly uncompressedBytes: number;
}

const LOOKED_AT: ReadLimits = { bytes: 32 << 20, uncompressedBytes: 256 << 20 };

/** A column's values of some rows, as they are stored, or a sentence why there are none. */
export interface ColumnValues {
  readonly values: readonly unknown[];
  readonly failure: string;
}

/** Statistics come as they are stored: the footer's own conversions round them. */
const AS_STORED = {
  timestampFromMilliseconds: (value: bigint) => value,
  timestampFromMicroseconds: (value: bigint) => value,
  timestampFromNanoseconds: (value: bigint) => value,
  dateFromDays: (value: number) => value,
  stringFromBytes: (value: Uint8Array) => value,
  uuidFromBytes: (value: Uint8Array) => value,
};

/** Reads the footer of a file. Throws an error with a sentence for what is no Parquet file. */
export async function readFooter(file: AsyncBuffer): Promise<FileMetaData> {
  const tail = new Uint8Array(await file.slice(Math.max(0, file.byteLength - TAIL_BYTES), file.byteLength));
  const range = footerRange(tail.slice(-8), file.byteLength);
  if (typeof range === "string") throw new Error(range);
  const footer = await file.slice(...range);
  try {
    const metadata = parquetMetadata(footer, { parsers: AS_STORED, geoparquet: false });
    topColumns(metadata.schema);
    return metadata;
  } catch (error) {
    throw new Error(`This Parquet file is damaged: its footer cannot be read (${(error as Error).message}).`);
  }
}

/** Reads rows `[start, end)` of some columns. */
export async function readRows(
  file: AsyncBuffer,
  metadata: FileMetaData,
  columns: readonly TopColumn[],
  [start, end]: readonly [number, number],
  limits: ReadLimits = LOOKED_AT,
): Promise<ColumnValues[]> {
  const parts: { readonly group: RowGroup; readonly rows: readonly [number, number] }[] = [];
  let before = 0;
  for (const group of metadata.row_groups) {
    const count = Number(group.num_rows);
    const rows = [Math.max(start - before, 0), Math.min(end - before, count)] as const;
    if (rows[0] < rows[1]) parts.push({ group, rows });
    before += count;
  }
  await Promise.all(parts.map(({ group }) => readSmallGroup(file, group, columns)));
  return Promise.all(
    columns.map(async (column) => {
      try {
        const values = await Promise.all(
          parts.map(({ group, rows }) => readColumn(file, metadata, group, column, rows, limits)),
        );
        return { values: values.flat(), failure: "" };
      } catch (error) {
        if (error instanceof DOMException) throw error;
        return { values: [], failure: `This column cannot be read: ${(error as Error).message}` };
      }
    }),
  );
}

/** Reads the columns of a row group at once if they are small and near one another; later reads then find them. */
async function readSmallGroup(file: AsyncBuffer, group: RowGroup, columns: readonly TopColumn[]): Promise<void> {
  const spans = columns.flatMap((column) =>
    chunksOf(group, column).flatMap((chunk) => (chunk.meta_data ? [spanOf(chunk.meta_data)] : [])),
  );
  const start = Math.min(...spans.map((span) => span[0]));
  const end = Math.max(...spans.map((span) => span[1]));
  if (start >= 0 && end <= file.byteLength && end - start <= MOST_AT_ONCE_BYTES) await file.slice(start, end);
}

type ColumnMeta = NonNullable<RowGroup["columns"][number]["meta_data"]>;

function chunksOf(group: RowGroup, column: TopColumn) {
  return group.columns.slice(column.firstLeaf, column.firstLeaf + column.leaves);
}

function spanOf(meta: ColumnMeta): [number, number] {
  const start = Number(meta.dictionary_page_offset || meta.data_page_offset);
  return [start, start + Number(meta.total_compressed_size)];
}

async function readColumn(
  file: AsyncBuffer,
  metadata: FileMetaData,
  group: RowGroup,
  column: TopColumn,
  [start, end]: readonly [number, number],
  limits: ReadLimits,
): Promise<unknown[]> {
  const flat = column.elements.length === 1 && column.elements[0]?.repetition_type !== "REPEATED";
  const [chunk] = chunksOf(group, column);
  if (flat && start === 0 && end <= MOST_FIRST_ROWS && chunk?.meta_data && !chunk.crypto_metadata) {
    const { readFirstPage } = await FIRST_PAGES;
    const first = await readFirstPage(file, chunk.meta_data, column.elements[0] as SchemaElement, end);
    if (first) return parsedRows(first.file, metadata, first.group, column, [0, end], {});
  }
  const compressors: Compressors = {};
  const chunks = await Promise.all(
    chunksOf(group, column).map(async (chunk) => {
      const meta = chunk.meta_data;
      if (!meta || chunk.crypto_metadata) throw new Error("it is encrypted");
      const span = spanOf(meta);
      if (span[0] < 0 || span[1] > file.byteLength) throw new Error("the file ends before it; the file is damaged");
      Object.assign(compressors, await compressorsOf(meta.codec, limits.uncompressedBytes));
      if (chunk.offset_index_offset && start > 0) return chunk;
      const bytes = await bytesOfRows(file, span, flat ? end : undefined, limits.bytes);
      return { ...chunk, offset_index_offset: undefined, meta_data: { ...meta, total_compressed_size: BigInt(bytes) } };
    }),
  );
  return parsedRows(
    bounded(file, limits.bytes),
    metadata,
    { ...group, columns: chunks } as RowGroup,
    column,
    [start, end],
    compressors,
  );
}

/** Returns the values of a column in the rows `[start, end)` of a row group that has this column only. */
async function parsedRows(
  file: AsyncBuffer,
  metadata: FileMetaData,
  group: RowGroup,
  column: TopColumn,
  [start, end]: readonly [number, number],
  compressors: Compressors,
): Promise<unknown[]> {
  const root = metadata.schema[0] as SchemaElement;
  const rows = await new Promise<unknown[][]>((resolve, reject) => {
    parquetRead({
      file,
      metadata: {
        ...metadata,
        schema: [{ ...root, num_children: 1 }, ...column.elements.map(asStored)],
        row_groups: [group],
      },
      columns: [column.name],
      rowStart: start,
      rowEnd: end,
      useOffsetIndex: true,
      utf8: false,
      parsers: { timestampFromNanoseconds: (value) => value },
      compressors,
      onComplete: resolve,
    }).catch(reject);
  });
  return rows.map((row) => row[0]);
}

/** Returns an element without a logical type, unless it is that of text or of a group. */
function asStored(element: SchemaElement): SchemaElement {
  if (element.num_children || element.converted_type === "UTF8" || element.logical_type?.type === "STRING") return element;
  const { converted_type: _converted, logical_type: _logical, ...stored } = element;
  return stored;
}

/**
 * Returns how many bytes of a column's part hold its first rows, by the headers of its pages; all of them for a nested column, whose headers
 * do not say how many rows a page has.
 */
async function bytesOfRows(
  file: AsyncBuffer,
  [start, end]: [number, number],
  rows: number | undefined,
  most: number,
): Promise<number> {
  if (rows === undefined || end - start <= SMALL_CHUNK_BYTES) return expectReadable(end - start, most);
  let place = start;
  for (let values = 0; place < end && values < rows; ) {
    const header = await headerAt(file, place, end);
    values += header.values;
    place += header.headerBytes + header.compressedBytes;
    expectReadable(place - start, most);
  }
  return Math.min(place, end) - start;
}

async function headerAt(file: AsyncBuffer, place: number, end: number) {
  for (let length = HEADER_BYTES; length <= MOST_HEADER_BYTES; length *= 8) {
    const header = readPageHeader(new Uint8Array(await file.slice(place, Math.min(place + length, end))));
    if (header) return header;
  }
  throw new Error("a page has no header; the file is damaged");
}

function expectReadable(bytes: number, most: number): number {
  if (bytes > most) throw new Error(`these rows take ${size(bytes)} of it, and the page reads up to ${size(most)}`);
  return bytes;
}

function bounded(file: AsyncBuffer, most: number): AsyncBuffer {
  return {
    byteLength: file.byteLength,
    slice: (start, end = file.byteLength) => {
      expectReadable(end - start, most);
      return file.slice(start, end);
    },
  };
}
