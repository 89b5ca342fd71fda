import { describe, expect, test } from "vitest";
import {
  ago,
  count,
  counted,
  exactTime,
  folders,
  nameIn,
  shortened,
  size,
  sizeChange,
  startOf,
  subject,
  visible,
} from "../src/model/text";

describe("numbers and sizes", () => {
  test.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "0.98 KiB"],
    [1024, "1.00 KiB"],
    [4_299_161, "4.10 MiB"],
    [12_999_999, "12.4 MiB"],
    [41_016_939_725, "38.2 GiB"],
    [-12_288, "−12.0 KiB"],
    [2 ** 70, "1024 EiB"],
  ])("%d bytes are %s", (bytes, text) => expect(size(bytes)).toBe(text));

  test("a change has a sign", () => {
    expect([sizeChange(1024), sizeChange(-1024), sizeChange(0)]).toEqual(["+1.00 KiB", "−1.00 KiB", "0 B"]);
  });

  test("a number agrees with its noun", () => {
    expect([count(1204), counted(1, "folder"), counted(4, "folder"), counted(0, "entry", "entries")]).toEqual([
      "1,204",
      "1 folder",
      "4 folders",
      "0 entries",
    ]);
  });
});

describe("times", () => {
  const now = Date.UTC(2026, 10, 28, 12) / 1000;
  test.each([
    [1, "now"],
    [59, "59 s"],
    [720, "12 min"],
    [3 * 3600, "3 h"],
    [2 * 86_400, "2 d"],
    [21 * 86_400, "3 wk"],
    [90 * 86_400, "30 Aug 2026"],
    [-3600, "28 Nov 2026"],
  ])("%d seconds before is %s", (seconds, text) => expect(ago(now - seconds, now)).toBe(text));

  test("the exact time names its zone", () => expect(exactTime(now, true)).toBe("28 Nov 2026, 12:00:00 UTC"));
});

describe("names", () => {
  test("marks are visible and nothing else changes", () => {
    expect(visible("a\nb\u202ec\u007f ä")).toBe("a␊b⟨U+202E⟩c␡ ä");
  });

  test("the end of a long name stays visible", () => {
    expect(shortened("events/day=2026-11-03/part-0001.parquet", 24)).toBe("events/day=…0001.parquet");
    expect(shortened("short", 24)).toBe("short");
  });

  test("folders above a path, empty names included", () => {
    expect(folders("a//b/c")).toEqual([
      ["a/", "a/"],
      ["/", "a//"],
      ["b/", "a//b/"],
    ]);
  });

  test("names are those after the prefix", () => expect([nameIn("a/b", "a/"), nameIn("b", "a/")]).toEqual(["b", "b"]));

  test("a message's subject is its first line", () => expect(subject("One\n\nTwo")).toBe("One"));
});

test("a day begins at midnight of the reader's zone", () => {
  expect(new Date(startOf("2026-11-03")).getHours()).toBe(0);
  expect(startOf("2026-11-03")).toMatch(/^2026-11-0[23]T\d\d:\d\d:00\.000Z$/);
  expect(startOf("2026-11-03", true)).toBe("2026-11-03T00:00:00.000Z");
  expect([startOf("2026-11-03T12:00:00Z"), startOf("3d")]).toEqual(["2026-11-03T12:00:00Z", "3d"]);
});
