import { expect, test } from "vitest";
import { parseMetadata } from "../src/model/metadata";

test("lines are names and values; the first = parts them", () => {
  expect(parseMetadata("source=etl\n\n url = http://x/?a=b \nempty=\n")).toEqual({
    source: "etl",
    url: "http://x/?a=b",
    empty: "",
  });
  expect(() => parseMetadata("a=1\nnothing")).toThrow("“nothing” is not metadata");
  expect(() => parseMetadata("=1")).toThrow("is not metadata");
});
