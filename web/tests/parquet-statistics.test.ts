import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { SchemaElement, Statistics } from "hyparquet";
import { describe, expect, test } from "vitest";
import { describeParquet, footerRange } from "../src/model/parquet-file";
import { nullsText, spanText } from "../src/model/parquet-statistics";
import { readFooter } from "../src/views/parquet-reader";

type Value = Statistics["min_value"];

const bytes = (...values: number[]) => Uint8Array.from(values);
const utf8 = (text: string) => new TextEncoder().encode(text);
const HUGE = "x".repeat(1 << 16);

/** Values of every type that a footer can yield, and some that it cannot. */
const VALUES: readonly unknown[] = [
  undefined,
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 31,
  1e308,
  -0,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  0n,
  -(2n ** 63n),
  2n ** 64n,
  10n ** 40n,
  "",
  "<script>alert(1)</script>",
  HUGE,
  new Date(Number.NaN),
  bytes(),
  bytes(1),
  bytes(0xff, 0xfe, 0xfd),
  bytes(0xc3, 0x28),
  utf8("<b>a</b>"),
  utf8("\u202egnp"),
  utf8(HUGE),
  new Uint8Array(1 << 16).fill(0xff),
];

const TYPES = [
  "BOOLEAN",
  "INT32",
  "INT64",
  "INT96",
  "FLOAT",
  "DOUBLE",
  "BYTE_ARRAY",
  "FIXED_LEN_BYTE_ARRAY",
  undefined,
] as const;
const CONVERTED = ["UTF8", "DECIMAL", "DATE", "TIME_MILLIS", "TIMESTAMP_MICROS", "UINT_64", "INTERVAL", undefined] as const;
const SCALES = [undefined, 0, 2, -3, 400, 2 ** 31 - 1];
const LOGICAL = [
  undefined,
  { type: "STRING" },
  { type: "DATE" },
  { type: "UUID" },
  { type: "FLOAT16" },
  { type: "TIME", unit: "NANOS", isAdjustedToUTC: true },
  { type: "TIMESTAMP", unit: "MILLIS", isAdjustedToUTC: false },
  { type: "INTEGER", bitWidth: 64, isSigned: false },
  ...SCALES.map((scale) => ({ type: "DECIMAL", precision: 9, scale })),
];

const KINDS: readonly Partial<SchemaElement>[] = [
  ...CONVERTED.flatMap((converted_type) => LOGICAL.map((logical_type) => ({ converted_type, logical_type }))),
  ...SCALES.map((scale) => ({ converted_type: "DECIMAL", scale })),
] as Partial<SchemaElement>[];

describe("statistics of any type and value", () => {
  test.each(TYPES)("are text or nothing for %s", (type) => {
    for (const kind of KINDS) {
      for (const value of VALUES) {
        const element = { name: "a", type, ...kind } as SchemaElement;
        const text = spanText({ least: value as Value, largest: 1 as unknown as Value, element });
        expect(text.length).toBeLessThan(200);
      }
    }
  });

  test("keep markup and marks of direction as they are read", () => {
    const element: SchemaElement = { name: "a", type: "BYTE_ARRAY", converted_type: "UTF8" };
    expect(spanText({ least: utf8("<b>a</b>"), largest: utf8("\u202egnp"), element })).toBe("<b>a</b>…⟨U+202E⟩gnp");
    expect(spanText({ least: bytes(0xc3, 0x28), largest: bytes(0xff), element })).toBe("0xc328…0xff");
  });

  test("stay as they are if the smallest is larger than the largest", () => {
    const element: SchemaElement = { name: "a", type: "INT64" };
    expect(spanText({ least: 9n, largest: 1n, element })).toBe("9…1");
  });

  test.each([
    [undefined, 3, "–"],
    [0, 3, "0 nulls"],
    [1, 2, "1 null 50.0%"],
    [-5, 2, "-5 nulls -250.0%"],
    [7, 0, "7 nulls"],
  ])("of %s nulls in %s values are %s", (nulls, values, text) => expect(nullsText({ nulls, values })).toBe(text));
});

test("a footer with any byte changed is described, or has a sentence", async () => {
  const whole = new Uint8Array(readFileSync(join(import.meta.dirname, "fixtures/zstd.parquet")));
  const [start] = footerRange(whole.subarray(-8), whole.length) as readonly [number, number];
  for (let place = start; place < whole.length - 8; place += 1) {
    const file = whole.slice();
    file[place] = place % 2 ? 0x7f : (whole[place] ?? 0) ^ 0x10;
    const slice = async (from: number, to?: number) => file.slice(from, to).buffer;
    try {
      const described = describeParquet(await readFooter({ byteLength: file.length, slice }));
      for (const column of described.columns) expect(spanText(column) + nullsText(column)).toBeTypeOf("string");
    } catch (error) {
      expect((error as Error).message, `byte ${place}`).toMatch(/Parquet file/);
    }
  }
}, 20_000);
