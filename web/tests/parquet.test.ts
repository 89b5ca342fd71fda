import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import type { Compressors, FileMetaData, SchemaElement } from "hyparquet";
import { describe, expect, test } from "vitest";
import { describeParquet, footerRange, topColumns } from "../src/model/parquet-file";
import { readPageHeader } from "../src/model/parquet-pages";
import { decimalText, instantText, nestedText, valueText } from "../src/model/parquet-values";
import { compressorsOf } from "../src/views/parquet-codecs";
import { readFooter, readRows } from "../src/views/parquet-reader";

const fixture = (name: string) => new Uint8Array(readFileSync(join(import.meta.dirname, "fixtures", name)));

function fileOf(bytes: Uint8Array) {
  const reads: [number, number][] = [];
  const slice = async (start: number, end = bytes.length) => {
    reads.push([start, end]);
    return bytes.slice(start, end).buffer;
  };
  return { byteLength: bytes.length, slice, reads };
}

async function rowsOf(bytes: Uint8Array, range: readonly [number, number] = [0, 10]) {
  const file = fileOf(bytes);
  const metadata = await readFooter(file);
  const columns = topColumns(metadata.schema);
  const read = await readRows(file, metadata, columns, range);
  return Object.fromEntries(
    columns.map((column, index) => {
      const { values, failure } = read[index] ?? { values: [], failure: "none" };
      const show = (value: unknown) =>
        column.elements.length > 1 ? nestedText(value, column.elements) : valueText(value, column.elements[0] as SchemaElement);
      return [column.name, failure || values.map(show)];
    }),
  );
}

describe("a file's values", () => {
  test("are shown exactly as they are stored", async () => {
    expect(await rowsOf(fixture("zstd.parquet"))).toEqual({
      id: ["1", "2", undefined],
      unsigned: ["0", "18446744073709551615", "5"],
      price: ["12345678901234567890123456.78", "-0.05", undefined],
      at: ["2026-11-03 04:00:00.123456Z", "1969-12-31 23:59:59Z", undefined],
      local: ["1970-01-01 00:00:00.000000001", "1969-12-31 23:59:59.999999999", undefined],
      day: ["2026-01-31", "1960-02-29", undefined],
      clock: ["01:02:03.004", undefined, "00:00:00"],
      half: ["1.5", "-2", undefined],
      text: ["<b>a</b>", "\u202eb", undefined],
      bytes: ["0x00ff", "plain", undefined],
      tags: ['["a", null]', "[]", undefined],
      who: ['{"name": "ana", "age": 1.50}', undefined, '{"name": null, "age": null}'],
      pairs: ['{"k": 1}', "{}", undefined],
    });
  });

  test.each(["gzip", "snappy", "lz4", "brotli"])("are read from pages of %s", async (codec) => {
    expect(await rowsOf(fixture(`${codec}.parquet`))).toEqual({
      id: ["1", "2", undefined],
      text: ["<b>a</b>", "\u202eb", undefined],
    });
  });

  test.each(["lz4", "brotli"])("of a long page are read from %s", async (codec) => {
    const { text } = await rowsOf(fixture(`${codec}-words.parquet`), [0, 100]);
    expect(text).toEqual(Array.from({ length: 100 }, (_, row) => `the time of day ${row % 7} and more words ${row}`));
  });

  test("are named by their codec if it is unknown", async () => {
    const bytes = fixture("brotli.parquet");
    // Both columns' codec in the footer, after their paths: 4 is Brotli, 3 is LZO.
    for (let place = 0; place < bytes.length - 3; place += 1)
      if (bytes[place] === 0x15 && bytes[place + 1] === 8 && bytes[place + 2] === 0x16) bytes[place + 1] = 6;
    expect((await rowsOf(bytes)).id).toMatch(/compressed with LZO, and the page reads/);
  });

  test("of INT96 are times of no zone", async () => {
    expect(await rowsOf(fixture("int96.parquet"))).toEqual({ at: ["2026-11-03 04:00:00.000001"] });
  });

  test("begin where it is asked for", async () => {
    expect((await rowsOf(fixture("zstd.parquet"), [1, 2])).tags).toEqual(["[]"]);
    expect((await rowsOf(fixture("zstd.parquet"), [3, 3])).tags).toEqual([]);
  });
});

describe("a footer", () => {
  test("has types, nulls and ends; those of decimals are not rounded", async () => {
    const file = describeParquet(await readFooter(fileOf(fixture("zstd.parquet"))));
    expect([file.rows, file.names.length, file.columns.length, file.codecs]).toEqual([3, 13, 15, ["ZSTD"]]);
    const column = (name: string) => file.columns.find((candidate) => candidate.path.join(".") === name);
    expect(column("price")).toMatchObject({ type: "DECIMAL(38, 2)", physical: "FIXED_LEN_BYTE_ARRAY(16)", nulls: 1 });
    expect(column("at")).toMatchObject({ type: "TIMESTAMP(micros, UTC)", physical: "INT64", nullable: true });
    expect(column("who.name")).toMatchObject({ type: "STRING", repeated: false });
    expect(column("tags.list.element")).toMatchObject({ repeated: true });
    const [id, at] = [column("id"), column("at")];
    expect([id?.least, id?.largest]).toEqual([1n, 2n]);
    expect(at && valueText(at.least, at.element)).toBe("1969-12-31 23:59:59Z");
  });

  test("with groups in groups without an end is refused", () => {
    const chain = Array.from({ length: 300_000 }, () => ({ name: "a", num_children: 1 }));
    expect(() => topColumns([...chain, { name: "b", type: "INT32" }])).toThrow("more than 100 levels");
    const flat = Array.from({ length: 5000 }, (_, number) => ({ name: `column ${number}`, type: "INT32" as const }));
    expect(topColumns([{ name: "root", num_children: 5000 }, ...flat]).length).toBe(5000);
  });

  const tail = (length: number, magic: string) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setUint32(0, length, true);
    bytes.set(new TextEncoder().encode(magic), 4);
    return bytes;
  };

  test.each([
    [tail(10, "PAR1"), 5, /no Parquet file: it has 5 B/],
    [tail(10, "PARE"), 100, /encrypted footer/],
    [tail(10, "XXXX"), 100, /does not end with PAR1/],
    [tail(100, "PAR1"), 100, /longer than the file/],
    [tail(2 ** 31, "PAR1"), 2 ** 40, /has 2.00 GiB; the page reads up to/],
  ])("that cannot be read has a sentence %#", (bytes, size, sentence) => expect(footerRange(bytes, size)).toMatch(sentence));

  test("lies before the tail", () => expect(footerRange(tail(10, "PAR1"), 100)).toEqual([82, 100]));

  test("with statistics in some parts only has no ends", () => {
    const part = (min_value: bigint | undefined) => ({
      file_offset: 0n,
      meta_data: {
        num_values: 1n,
        total_compressed_size: 1n,
        total_uncompressed_size: 1n,
        statistics: { min_value, null_count: 0n },
      },
    });
    const schema = [
      { name: "root", num_children: 1 },
      { name: "a", type: "INT64" },
    ];
    const row_groups = [{ columns: [part(1n)] }, { columns: [part(undefined)] }];
    const file = describeParquet({ schema, row_groups, num_rows: 2n } as unknown as FileMetaData);
    expect(file.columns[0]).toMatchObject({ least: undefined, nulls: 0, values: 2 });
  });

  test("that is no tree is an error, not a loop", () => {
    expect(() => topColumns([{ name: "root" }, { name: "a", num_children: 5 }])).toThrow(/ends too early/);
  });
});

describe("damage", () => {
  test("of any byte is a sentence or other values, never a crash", async () => {
    const whole = fixture("gzip.parquet");
    for (let place = 0; place < whole.length; place += 3) {
      const bytes = whole.slice();
      bytes[place] = (bytes[place] ?? 0) ^ 0xff;
      const result = await rowsOf(bytes).catch((error: unknown) => error);
      if (result instanceof Error) expect(result.message).toMatch(/Parquet file/);
    }
  });

  test.each(["lz4-words", "brotli-words"])("of a page of %s is a sentence or other values", async (name) => {
    const whole = fixture(`${name}.parquet`);
    for (let place = 4; place < whole.length - 200; place += 7) {
      const bytes = whole.slice();
      bytes[place] = (bytes[place] ?? 0) ^ 0x55;
      const result = await rowsOf(bytes, [0, 100]).catch((error: unknown) => error);
      if (result instanceof Error) expect(result.message).toMatch(/Parquet file/);
    }
  });

  test("by cutting is a sentence", async () => {
    const whole = fixture("zstd.parquet");
    for (let length = 0; length < whole.length; length += 97) {
      await expect(readFooter(fileOf(whole.slice(0, length)))).rejects.toThrow(/Parquet file/);
    }
  });

  test("of one column leaves the others", async () => {
    const bytes = fixture("gzip.parquet");
    bytes.fill(0xff, 4, 30);
    const rows = await rowsOf(bytes);
    expect(rows.id).toMatch(/cannot be read/);
    expect(rows.text).toEqual(["<b>a</b>", "\u202eb", undefined]);
  });
});

describe("a page", () => {
  const text = new Uint8Array(1 << 20).fill(0x61);
  const PAGES: readonly (readonly [codec: keyof Compressors, bytes: Uint8Array])[] = [
    ["GZIP", gzipSync(text)],
    ["BROTLI", brotliCompressSync(text)],
    ["LZ4_RAW", Uint8Array.of(0x1f, 0x61, 1, 0, ...new Uint8Array(4111).fill(0xff), 0xf6, 0x50, ...text.subarray(0, 5))],
    ["SNAPPY", Uint8Array.of(0x80, 0x80, 0x40, 0, 0x61, ...Array(0x3fff).fill([0xfe, 1, 0]).flat(), 0xfa, 1, 0)],
  ];

  test.each(PAGES)("of %s never has more bytes than it says", async (codec, page) => {
    const decompress = (await compressorsOf(codec, 2 << 20))[codec];
    expect(Buffer.compare(decompress?.(page, text.length) ?? page, text)).toBe(0);
    const cut = await Promise.resolve()
      .then(() => decompress?.(page, 1000).length)
      .catch((error: unknown) => error);
    expect(cut instanceof Error || cut === 1000).toBe(true);
  });

  test("counts before it is decompressed", async () => {
    const page = brotliCompressSync(text);
    const first = (await compressorsOf("BROTLI", 2 << 20)).BROTLI;
    expect(() => first?.(page, 2 ** 31)).toThrow(/more than 2.00 MiB uncompressed/);
    const second = (await compressorsOf("BROTLI", 2 << 20)).BROTLI;
    second?.(page, text.length);
    second?.(page, text.length);
    expect(() => second?.(page, text.length)).toThrow(/more than 2.00 MiB uncompressed/);
  });
});

test("a header of a page says how long it is, also if it is cut", () => {
  // kind 0, 300 bytes, 200 compressed, and a data page header with 7 values
  const header = Uint8Array.of(0x15, 0, 0x15, 0xd8, 4, 0x15, 0x90, 3, 0x2c, 0x15, 14, 0, 0);
  expect(readPageHeader(header)).toEqual({
    kind: 0,
    encoding: -1,
    headerBytes: 13,
    compressedBytes: 200,
    uncompressedBytes: 300,
    values: 7,
  });
  for (let length = 0; length < header.length; length += 1) expect(readPageHeader(header.subarray(0, length))).toBeUndefined();
  expect(() => readPageHeader(new Uint8Array(100).fill(0xff))).toThrow();
  expect(() => readPageHeader(new Uint8Array(1000).fill(0x1c))).toThrow();
});

describe("texts", () => {
  test.each([
    [0n, 0, "0"],
    [5n, 3, "0.005"],
    [-123456n, 2, "-1234.56"],
    [-1n, 1, "-0.1"],
  ])("%s with the scale %d is %s", (unscaled, scale, text) => expect(decimalText(unscaled, scale)).toBe(text));

  test("times beyond the calendar are their numbers", () => {
    expect(instantText(10n ** 30n, 9, true)).toBe(`${10n ** 30n} ns`);
    expect(instantText(-1n, 3, false)).toBe("1969-12-31 23:59:59.999");
  });

  test("a long list is cut", () => {
    const elements = [
      { name: "a", num_children: 1, converted_type: "LIST" as const },
      { name: "list", num_children: 1, repetition_type: "REPEATED" as const },
      { name: "element", type: "INT32" as const },
    ];
    expect(
      nestedText(
        Array.from({ length: 1000 }, () => 1),
        elements,
      ),
    ).toMatch(/, 1, … \(1000 items\)\]$/);
  });
});
