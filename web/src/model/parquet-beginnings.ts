/**
 * The beginnings of Parquet's pages.
 *
 * A page has up to a megabyte, and a column's dictionary another one, so the first rows of ten columns may cost ten megabytes. Writers fill
 * both from the front: the first rows are at the beginning of the first page, and their values at the beginning of the dictionary. Functions
 * here return undefined if the beginning of a page is too short for what is asked.
 */

/** Encodings of values in a page, by their numbers in its header. */
export const PLAIN = 0;
const DICTIONARIES = [2, 8];

/** How the values of a column lie in a page: fixed numbers of bytes, bits, or a length before each. */
export type Layout = number | "bits" | "lengths";

/** The first rows of a page: whether each has a value, unless all have, and the values' bytes, encoded as PLAIN. */
export interface FirstRows {
  readonly present: readonly number[] | undefined;
  readonly values: Uint8Array;
}

/** A beginning of the dictionary with at least as many values as were asked for, or undefined where the page has no such beginning. */
export type Dictionary = (values: number) => Promise<Uint8Array | undefined>;

/** Returns the first `rows` of a page of the first version of the format, from the beginning of its uncompressed bytes. */
export async function firstRows(
  page: Uint8Array,
  { encoding, rows, optional, layout }: { encoding: number; rows: number; optional: boolean; layout: Layout },
  dictionary: Dictionary,
): Promise<FirstRows | undefined> {
  const levels = optional ? levelsOf(page, rows) : { present: undefined, place: 0 };
  if (!levels) return undefined;
  const { present, place } = levels;
  const count = present ? present.reduce((sum, level) => sum + level, 0) : rows;
  if (encoding === PLAIN) {
    const end = plainEnd(page, place, count, layout);
    return end === undefined ? undefined : { present, values: page.subarray(place, end) };
  }
  if (!DICTIONARIES.includes(encoding) || layout === "bits") return undefined;
  const width = page[place];
  const indices = width === undefined ? undefined : hybrid(page, place + 1, width, count);
  if (!indices) return undefined;
  const entries = await dictionary(indices.reduce((most, index) => Math.max(most, index + 1), 0));
  const values = entries && lookUp(entries, indices, layout);
  return values && { present, values };
}

/** Returns where `count` values end that are encoded as PLAIN. */
export function plainEnd(page: Uint8Array, start: number, count: number, layout: Layout): number | undefined {
  let end = start;
  if (layout === "bits") end += Math.ceil(count / 8);
  else if (layout !== "lengths") end += count * layout;
  else for (let value = 0; value < count && end <= page.length; value += 1) end += 4 + lengthAt(page, end);
  return end <= page.length ? end : undefined;
}

function lengthAt(page: Uint8Array, place: number): number {
  const [first = 0, second = 0, third = 0, fourth = 0] = page.subarray(place, place + 4);
  return first + second * 2 ** 8 + third * 2 ** 16 + fourth * 2 ** 24;
}

/** Definition levels of a column that is not nested: 1 for a value, 0 for null. */
function levelsOf(page: Uint8Array, rows: number): { readonly present: number[]; readonly place: number } | undefined {
  const place = 4 + lengthAt(page, 0);
  const present = hybrid(page.subarray(0, place), 4, 1, rows);
  return present && place <= page.length ? { present, place } : undefined;
}

/** Returns `count` numbers of `width` bits in runs, either of one number or packed, and where they end. */
function hybrid(page: Uint8Array, start: number, width: number, count: number): number[] | undefined {
  if (width > 32) throw new Error(`a page has numbers of ${width} bits; the file is damaged`);
  const numbers: number[] = [];
  for (let place = start; numbers.length < count; ) {
    const head = varintAt(page, place);
    if (!head) return undefined;
    const length = Math.floor(head.value / 2);
    if (length === 0) throw new Error("a page has a run of nothing; the file is damaged");
    const packed = head.value % 2 === 1;
    const present = Math.min(packed ? length * 8 : length, count - numbers.length);
    const bytes = Math.ceil(packed ? (present * width) / 8 : width / 8);
    if (head.end + bytes > page.length) return undefined;
    const first = head.end * 8;
    for (let number = 0; number < present; number += 1)
      numbers.push(bitsAt(page, packed ? first + number * width : first, width));
    place = head.end + (packed ? length * width : bytes);
  }
  return numbers;
}

function varintAt(page: Uint8Array, start: number): { readonly value: number; readonly end: number } | undefined {
  let value = 0;
  for (let place = start, scale = 1; scale <= 2 ** 28; place += 1, scale *= 128) {
    const byte = page[place];
    if (byte === undefined) return undefined;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return { value, end: place + 1 };
  }
  throw new Error("a page has a number without an end; the file is damaged");
}

/** Returns a number of some bits, the least significant first. */
function bitsAt(page: Uint8Array, start: number, width: number): number {
  let number = 0;
  for (let bit = 0; bit < width; bit += 1) {
    const place = start + bit;
    if (((page[place >> 3] ?? 0) >> (place & 7)) & 1) number += 2 ** bit;
  }
  return number;
}

function lookUp(entries: Uint8Array, indices: readonly number[], layout: number | "lengths"): Uint8Array | undefined {
  if (layout !== "lengths") return joined(indices.map((index) => entries.subarray(index * layout, (index + 1) * layout)));
  const places = [0];
  for (const index of indices) {
    while (places.length < index + 2) {
      const end = plainEnd(entries, places.at(-1) ?? 0, 1, layout);
      if (end === undefined) return undefined;
      places.push(end);
    }
  }
  return joined(indices.map((index) => entries.subarray(places[index], places[index + 1])));
}

/** Returns a page of the first version of the format, with its header, that has these rows, uncompressed. */
export function pageOf({ present, values }: FirstRows, rows: number): Uint8Array<ArrayBuffer> {
  const levels = present ? packedLevels(present) : new Uint8Array();
  const bytes = levels.length + values.length;
  const number = (step: number, value: number) => [(step << 4) | 5, ...varint(value * 2)];
  const header = [
    ...number(1, 0), // a data page
    ...number(1, bytes),
    ...number(1, bytes),
    (2 << 4) | 12, // field 5, a struct: rows, PLAIN, and levels in runs
    ...number(1, rows),
    ...number(1, PLAIN),
    ...number(1, 3),
    ...number(1, 3),
    0,
    0,
  ];
  return joined([Uint8Array.from(header), levels, values]);
}

function packedLevels(present: readonly number[]): Uint8Array {
  const groups = Math.ceil(present.length / 8);
  const packed = new Uint8Array(groups);
  for (const [row, level] of present.entries()) packed[row >> 3] = (packed[row >> 3] ?? 0) | (level << (row & 7));
  const head = varint(groups * 2 + 1);
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, head.length + groups, true);
  return joined([length, Uint8Array.from(head), packed]);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    bytes.set(part, place);
    place += part.length;
  }
  return bytes;
}

/** Returns the first bytes, at most `most` of them, to which the beginning of Snappy's output decompresses. */
export function snappyBeginning(input: Uint8Array, most: number): Uint8Array {
  const output = new Uint8Array(most);
  let place = varintAt(input, 0)?.end ?? input.length; // the length of the whole
  let length = 0;
  while (place < input.length && length < most) {
    const tag = snappyTag(input, place);
    if (tag.end > input.length) break; // it is cut
    if (tag.offset > length) throw new Error("a page refers to bytes before it; the file is damaged");
    const bytes = Math.min(tag.length, most - length);
    if (tag.offset === 0) output.set(input.subarray(tag.end, tag.end + bytes), length);
    else for (let byte = length; byte < length + bytes; byte += 1) output[byte] = output[byte - tag.offset] ?? 0;
    place = tag.end + (tag.offset === 0 ? tag.length : 0);
    length += tag.offset === 0 ? Math.min(bytes, input.length - tag.end) : bytes;
  }
  return output.subarray(0, length);
}

/** Returns what is next in Snappy's output: bytes behind the tag, or, with an offset, bytes that were before. */
function snappyTag(
  input: Uint8Array,
  place: number,
): { readonly length: number; readonly offset: number; readonly end: number } {
  const tag = input[place] ?? 0;
  const run = tag >> 2;
  const number = (bytes: number) => lengthAt(input, place + 1) % 2 ** (8 * bytes);
  const isOffset = (offset: number) => offset || Number.POSITIVE_INFINITY;
  switch (tag & 3) {
    case 0: {
      const bytes = Math.max(0, run - 59);
      return { length: (bytes ? number(bytes) : run) + 1, offset: 0, end: place + 1 + bytes };
    }
    case 1:
      return { length: (run & 7) + 4, offset: isOffset((tag >> 5) * 256 + number(1)), end: place + 2 };
    case 2:
      return { length: run + 1, offset: isOffset(number(2)), end: place + 3 };
    default:
      return { length: run + 1, offset: isOffset(number(4)), end: place + 5 };
  }
}
