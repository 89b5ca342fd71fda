import { readFileSync } from "node:fs";
import { join } from "node:path";
import { snappyUncompress } from "hyparquet";
import { describe, expect, test } from "vitest";
import { firstRows, snappyBeginning } from "../src/model/parquet-beginnings";
import { topColumns } from "../src/model/parquet-file";
import { readFooter, readRows } from "../src/views/parquet-reader";

/** One row group of 4,000 rows: columns with and without a dictionary, with nulls, and of several codecs. */
const FILE = new Uint8Array(readFileSync(join(import.meta.dirname, "fixtures/long-pages.parquet")));
const HOLE_BYTES = 2 << 20;

/** Reads rows of a file; with a hole behind its first column, as that of a larger row group is. */
async function read(whole: Uint8Array, [start, end]: readonly [number, number], hole = 0) {
  const bytes = new Uint8Array(whole.length + hole);
  const ranges: [number, number][] = [];
  const file = {
    byteLength: bytes.length,
    slice: async (from: number, to = bytes.length) => {
      ranges.push([from, to]);
      return bytes.slice(from, to).buffer;
    },
  };
  bytes.set(whole, hole);
  const metadata = await readFooter(file);
  const [first, ...others] = (metadata.row_groups[0]?.columns ?? []).flatMap(({ meta_data }) => meta_data ?? []);
  bytes.copyWithin(0, hole, hole + Number(first?.total_compressed_size) + 4);
  for (const meta of others) {
    meta.data_page_offset += BigInt(hole);
    if (meta.dictionary_page_offset) meta.dictionary_page_offset += BigInt(hole);
  }
  ranges.length = 0;
  const columns = await readRows(file, metadata, topColumns(metadata.schema), [start, end]);
  return { columns, metadata, ranges };
}

describe("the first rows of long pages", () => {
  test.each([1, 7, 8, 9, 64, 200, 1000, 3999, 4000])("are those of the whole pages: %d", async (rows) => {
    const { columns } = await read(FILE, [0, rows]);
    expect(columns.map(({ failure }) => failure)).toEqual(columns.map(() => ""));
    const whole = await read(FILE, [0, 4000]);
    expect(columns.map(({ values }) => values)).toEqual(whole.columns.map(({ values }) => values.slice(0, rows)));
    const others = await read(FILE, [1, 4000]); // by the pages
    expect(whole.columns.map(({ values }) => values.slice(1))).toEqual(others.columns.map(({ values }) => values));
  });

  test("are read from the beginnings of their pages, of the dictionary, too", async () => {
    const { ranges, metadata } = await read(FILE, [0, 200], HOLE_BYTES);
    const bytesOf = (name: string) => {
      const meta = metadata.row_groups[0]?.columns.find((column) => column.meta_data?.path_in_schema[0] === name)?.meta_data;
      const start = Number(meta?.dictionary_page_offset ?? meta?.data_page_offset);
      const end = start + Number(meta?.total_compressed_size);
      const parts = ranges.filter(([from]) => from >= start && from < end);
      return { read: parts.reduce((most, [from, to]) => Math.max(most, to - from), 0), all: end - start };
    };
    for (const name of ["plain", "text", "fixed"]) {
      const { read, all } = bytesOf(name);
      expect(read, name).toBeLessThanOrEqual(8 << 10);
      expect(all, name).toBeGreaterThan(16 << 10);
    }
  });

  test("of damaged pages have a sentence or a value, and nothing hangs", async () => {
    for (let place = 4; place < FILE.length - 4096; place += 4999) {
      const bytes = FILE.slice();
      bytes.fill(0xff, place, place + 16);
      const { columns } = await read(bytes, [0, 200]);
      for (const { values, failure } of columns) expect(failure || values.length).toBeTruthy();
    }
  });
});

describe("a column that lies", () => {
  const bits = (...bytes: number[]) => Uint8Array.from(bytes);
  const none = async () => new Uint8Array(64);

  test("about the length of its values has no first rows", async () => {
    const page = { encoding: 0, rows: 2, optional: false, layout: "lengths" } as const;
    expect(await firstRows(bits(0xff, 0xff, 0xff, 0xff, 1), page, none)).toBeUndefined();
    expect(await firstRows(bits(1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x7f), page, none)).toBeUndefined();
  });

  test("about its levels has no first rows, or a sentence", async () => {
    const page = { encoding: 0, rows: 9, optional: true, layout: 8 } as const;
    expect(await firstRows(bits(0xff, 0xff, 0xff, 0xff, 3, 0xff), page, none)).toBeUndefined();
    await expect(firstRows(bits(2, 0, 0, 0, 0, 0), page, none)).rejects.toThrow("a run of nothing");
    await expect(firstRows(bits(9, 0, 0, 0, ...Array(9).fill(0xff)), page, none)).rejects.toThrow("without an end");
  });

  test("about its dictionary has no first rows, or a sentence", async () => {
    const page = { encoding: 8, rows: 1, optional: false, layout: "lengths" } as const;
    const asked: number[] = [];
    const dictionary = async (values: number) => {
      asked.push(values);
      return undefined;
    };
    expect(await firstRows(bits(32, 2, 0xff, 0xff, 0xff, 0xff), page, dictionary)).toBeUndefined();
    expect(asked).toEqual([2 ** 32]);
    expect(await firstRows(bits(32, 2, 0xff, 0xff, 0xff, 0xff), page, none)).toBeUndefined();
    await expect(firstRows(bits(33, 2, 0), page, none)).rejects.toThrow("33 bits");
  });
});

describe("the beginning of Snappy's output", () => {
  const compressed = Uint8Array.of(
    ...[0x80, 0x80, 0x01], // 16,384 bytes
    ...[0x08, 1, 2, 3], // three bytes
    ...[0x01, 3], // four bytes from three before
    ...[0x0e, 7, 0], // four bytes from seven before
    ...[0x0f, 7, 0, 0, 0], // four bytes from seven before, with a long offset
    ...[0xf0, 2, 9, 9, 9], // three bytes with a long length
  );
  const output = [1, 2, 3, 1, 2, 3, 1, 1, 2, 3, 1, 2, 3, 1, 1, 9, 9, 9];

  test("is as much as its input has", () => {
    for (let length = 0; length <= compressed.length; length += 1) {
      const beginning = [...snappyBeginning(compressed.subarray(0, length), 100)];
      expect(beginning).toEqual(output.slice(0, beginning.length));
    }
    const whole = compressed.slice(1);
    whole.set([0x92, 0], 0); // 18 bytes, in two bytes
    const expected = new Uint8Array(18);
    snappyUncompress(whole, expected);
    expect([...snappyBeginning(compressed, 100)]).toEqual([...expected]);
  });

  test("is no more than is asked for", () => {
    for (let most = 0; most < output.length; most += 1)
      expect([...snappyBeginning(compressed, most)]).toEqual(output.slice(0, most));
  });

  test("never refers to what is before it", () => {
    expect(() => snappyBeginning(Uint8Array.of(10, 0, 1, 0x01, 9), 10)).toThrow("damaged");
    expect(() => snappyBeginning(Uint8Array.of(10, 0, 1, 0x01, 0), 10)).toThrow("damaged");
  });
});
