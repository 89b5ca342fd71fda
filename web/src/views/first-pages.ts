/** The first rows of long pages of Parquet, without the rest of the pages: see `model/parquet-beginnings`. */
import { decompress as decompressZstd } from "fzstd";
import type { AsyncBuffer, ColumnMetaData, RowGroup, SchemaElement } from "hyparquet";
import { firstRows, type Layout, PLAIN, pageOf, plainEnd, snappyBeginning } from "../model/parquet-beginnings";
import { type PageHeader, readPageHeader } from "../model/parquet-pages";
import { frameOfBeginning } from "../model/zstd-frames";

/** How much of a page is read first, with its header. */
const BEGINNING_BYTES = 8 << 10;
const MOST_BEGINNING_BYTES = 1 << 20;
const GROWTH = 4;
const MOST_EXPANSION = 8;
const DATA_PAGE = 0;
const DICTIONARY_PAGE = 2;
const PLAIN_DICTIONARY = 2;

/** Returns the first bytes, about `most` of them, that the beginning of a compressed page has. */
type Beginning = (input: Uint8Array, most: number) => Uint8Array;

function zstdBeginning(input: Uint8Array, most: number): Uint8Array {
  const frame = frameOfBeginning(input, most);
  return frame ? decompressZstd(frame) : new Uint8Array();
}

/** What decompresses beginnings of pages, by codec. The others' pages are read as a whole. */
const BEGINNINGS: Readonly<Record<string, Beginning>> = {
  UNCOMPRESSED: (input) => input,
  SNAPPY: snappyBeginning,
  ZSTD: zstdBeginning,
};

/** A page as a file of its own, and its row group, which has one column. */
export interface FirstPage {
  readonly file: AsyncBuffer;
  readonly group: RowGroup;
}

/**
 * Returns a file of one page with the first rows of a column's part, from the beginnings of its dictionary and its first page; undefined where these have
 * to be read as a whole: short ones, and those whose encoding or codec has no beginning that could be read by itself.
 */
export async function readFirstPage(
  file: AsyncBuffer,
  meta: ColumnMetaData,
  element: SchemaElement,
  rows: number,
): Promise<FirstPage | undefined> {
  const start = Number(meta.dictionary_page_offset || meta.data_page_offset);
  const end = start + Number(meta.total_compressed_size);
  const layout = layoutOf(element);
  const decompress = BEGINNINGS[meta.codec];
  if (end - start <= 2 * BEGINNING_BYTES || start < 0 || end > file.byteLength || !decompress || !layout) return undefined;
  const top = await beginningAt(file, start, end);
  const dictionary = top?.header.kind === DICTIONARY_PAGE ? top : undefined;
  const data = dictionary ? await beginningAt(file, dictionary.end, end) : top;
  if (data?.header.kind !== DATA_PAGE || data.header.values < rows) return undefined;
  const optional = element.repetition_type === "OPTIONAL";
  const { encoding } = data.header;
  const found = await grown(file, data, decompress, (page) =>
    firstRows(page, { encoding, rows, optional, layout }, async (values) =>
      dictionary && (dictionary.header.encoding === PLAIN || dictionary.header.encoding === PLAIN_DICTIONARY)
        ? grown(file, dictionary, decompress, async (entries) =>
            plainEnd(entries, 0, values, layout) === undefined ? undefined : entries,
          )
        : undefined,
    ),
  );
  return found && fileOf(pageOf(found, rows), meta, rows);
}

function layoutOf({ type, type_length }: SchemaElement): Layout | undefined {
  if (type === "FIXED_LEN_BYTE_ARRAY") return type_length && type_length > 0 ? type_length : undefined;
  return (
    type && ({ BOOLEAN: "bits", INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8, BYTE_ARRAY: "lengths" } as const)[type]
  );
}

interface PageBeginning {
  readonly header: PageHeader;
  /** Where the page's contents are in the file. */
  readonly start: number;
  readonly end: number;
}

async function beginningAt(file: AsyncBuffer, place: number, chunkEnd: number): Promise<PageBeginning | undefined> {
  const header = readPageHeader(new Uint8Array(await file.slice(place, Math.min(place + BEGINNING_BYTES, chunkEnd))));
  if (!header) return undefined;
  const start = place + header.headerBytes;
  const end = start + header.compressedBytes;
  return end <= chunkEnd ? { header, start, end } : undefined;
}

/** Reads more and more of a page until `find` finds what it looks for; undefined if a mebibyte of it is not enough. */
async function grown<T>(
  file: AsyncBuffer,
  { header, start, end }: PageBeginning,
  decompress: (input: Uint8Array, most: number) => Uint8Array,
  find: (page: Uint8Array) => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let most = BEGINNING_BYTES - header.headerBytes; most > 0 && most <= MOST_BEGINNING_BYTES; most *= GROWTH) {
    const bytes = Math.min(most, end - start);
    const input = new Uint8Array(await file.slice(start, start + bytes));
    const found = await find(decompress(input, Math.min(bytes * MOST_EXPANSION, header.uncompressedBytes)));
    if (found !== undefined || bytes < most) return found;
  }
  return undefined;
}

function fileOf(page: Uint8Array<ArrayBuffer>, meta: ColumnMetaData, rows: number): FirstPage {
  const { dictionary_page_offset: _dictionary, ...others } = meta;
  const meta_data: ColumnMetaData = {
    ...others,
    codec: "UNCOMPRESSED",
    num_values: BigInt(rows),
    data_page_offset: 0n,
    total_compressed_size: BigInt(page.length),
  };
  const group = { columns: [{ file_offset: 0n, meta_data }], num_rows: BigInt(rows), total_byte_size: BigInt(page.length) };
  return { file: { byteLength: page.length, slice: (start, end) => page.buffer.slice(start, end) }, group };
}
