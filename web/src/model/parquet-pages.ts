/** Headers of Parquet's pages: enough to know how much of a column holds its first rows. */

/** A page: the bytes of its header and of its compressed contents, and how many values it has. A dictionary has none. */
export interface PageHeader {
  /** 0 for a data page of the first version of the format, 2 for a dictionary, 3 for a data page of the second version. */
  readonly kind: number;
  /** The number of the encoding of its values. */
  readonly encoding: number;
  readonly headerBytes: number;
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
  readonly values: number;
}

const V2 = 3;
const STRUCT = 12;
const LISTS = [9, 10];
const MAP = 11;
const DEEPEST = 16;

/** The header goes on behind the bytes. */
class CutError extends Error {}

/** Reads the header of the page at the beginning of some bytes; undefined if it goes on behind them. Throws an error for what is none. */
export function readPageHeader(bytes: Uint8Array): PageHeader | undefined {
  const reader = new CompactReader(bytes);
  try {
    const fields = reader.struct(0);
    const [kind, uncompressedBytes, compressedBytes] = [fields.get(1), fields.get(2), fields.get(3)];
    if (!isCount(kind) || !isCount(uncompressedBytes) || !isCount(compressedBytes)) throw new Error("no header of a page");
    const data = fields.get(5) ?? fields.get(8);
    const values = data instanceof Map ? data.get(1) : 0;
    const details = data ?? fields.get(7);
    const encoding = details instanceof Map ? details.get(kind === V2 ? 4 : 2) : undefined;
    return {
      kind,
      encoding: isCount(encoding) ? encoding : -1,
      headerBytes: reader.place,
      compressedBytes,
      uncompressedBytes,
      values: isCount(values) ? values : 0,
    };
  } catch (error) {
    if (error instanceof CutError) return undefined;
    throw error;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

type Field = number | boolean | undefined | Fields;
type Fields = Map<number, Field>;

/** Thrift's compact protocol, as far as headers of pages use it: numbers and structs are kept, all else is passed over. */
class CompactReader {
  place = 0;

  constructor(private readonly bytes: Uint8Array) {}

  struct(depth: number): Fields {
    if (depth > DEEPEST) throw new Error("no header of a page");
    const fields: Fields = new Map();
    let id = 0;
    for (;;) {
      const head = this.byte();
      if (head === 0) return fields;
      const step = head >> 4;
      id = step ? id + step : this.zigzag();
      fields.set(id, this.value(head & 0x0f, depth));
    }
  }

  private value(type: number, depth: number): Field {
    if (type === 1 || type === 2) return type === 1;
    if (type === 3) return this.byte();
    if (type >= 4 && type <= 6) return this.zigzag();
    if (type === 7) return this.skip(8);
    if (type === 8) return this.skip(this.varint());
    if (type === STRUCT) return this.struct(depth + 1);
    if (LISTS.includes(type)) return this.list(depth);
    throw new Error(type === MAP ? "a map in a header of a page" : "no header of a page");
  }

  private list(depth: number): undefined {
    const head = this.byte();
    const length = head >> 4 === 15 ? this.varint() : head >> 4;
    for (let item = 0; item < length; item += 1) this.value(head & 0x0f, depth + 1);
  }

  private skip(length: number): undefined {
    this.place += length;
    if (this.place > this.bytes.length) throw new CutError();
  }

  private byte(): number {
    const byte = this.bytes[this.place];
    if (byte === undefined) throw new CutError();
    this.place += 1;
    return byte;
  }

  private varint(): number {
    let value = 0;
    for (let scale = 1; scale <= 2 ** 63; scale *= 128) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw new Error("no header of a page");
  }

  private zigzag(): number {
    const value = this.varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}
