import { expect, test } from "vitest";
import { fieldTime, formatRefTime, parseRefTime, readFieldTime, timeOf } from "../src/model/ref-times";

test("a branch at a time is a ref, and is read from it", () => {
  const ref = formatRefTime("main", 1_793_710_800);
  expect(ref).toBe("main@{2026-11-03T13:00:00Z}");
  expect(parseRefTime(ref)).toEqual({ branch: "main", words: "2026-11-03T13:00:00Z" });
  expect(timeOf("2026-11-03T13:00:00Z")).toBe(1_793_710_800);
});

test("ages and moves are words, not times", () => {
  expect(parseRefTime("team/x@{1 hour ago}")).toEqual({ branch: "team/x", words: "1 hour ago" });
  expect(timeOf("1 hour ago")).toBeUndefined();
  expect(timeOf("3")).toBeUndefined();
  expect(timeOf("2026-99-99")).toBeUndefined();
});

test.each(["main", "main~2", "main@", "main@{2}~1", "4e1c77a", "@{2}", "main@{}"])("%s names no time", (ref) => {
  expect(parseRefTime(ref)).toBeUndefined();
});

test.each([true, false])("a field's value is the time again (UTC: %s)", (utc) => {
  expect(readFieldTime(fieldTime(1_793_710_800, utc), utc)).toBe(1_793_710_800);
});

test("an empty field has no time", () => expect(readFieldTime("", true)).toBeUndefined());
