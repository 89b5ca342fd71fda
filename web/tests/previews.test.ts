import { describe, expect, test } from "vitest";
import { decodeText, hexDump, imageType, prettyJson, previewKind } from "../src/model/previews";

test.each([
  ["a/part-0.parquet", "", "parquet"],
  ["a/PART-0.PARQUET", "text/html", "parquet"],
  ["x", "application/vnd.apache.parquet", "parquet"],
  ["a.csv", "", "csv"],
  ["a", "text/csv; charset=utf-8", "csv"],
  ["a.json", "", "json"],
  ["README.md", "", "markdown"],
  ["a.svg", "", "image"],
  ["a", "image/png", "image"],
  ["a.html", "text/html", "text"],
  ["a", "image/x-unheard-of", "text"],
  ["folder.png/a", "", "text"],
])("%s of the type %j is previewed as %s", (path, type, kind) => expect(previewKind(path, type)).toBe(kind));

test("a picture is drawn as a picture's type only", () => {
  expect([imageType("a.svg", "text/html"), imageType("a", "text/html"), imageType("a", "IMAGE/PNG; x=1")]).toEqual([
    "image/svg+xml",
    "",
    "image/png",
  ]);
});

describe("text", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);

  test("a character that the end cuts is left out", () => {
    expect(decodeText(bytes("aä").subarray(0, 2), 3)).toEqual({ text: "a", binary: false, whole: false });
    expect(decodeText(bytes("aä"), 3)).toEqual({ text: "aä", binary: false, whole: true });
  });

  test("bytes that are no text are binary", () => {
    expect(decodeText(Uint8Array.of(0x50, 0, 1), 3).binary).toBe(true);
    expect(decodeText(Uint8Array.of(0xff, 0xfe, 0xfd, 0x41), 4).binary).toBe(true);
  });

  test("bytes are shown in lines of sixteen", () => {
    expect(hexDump(Uint8Array.from({ length: 18 }, (_, place) => place + 0x38))).toBe(
      `00000000  38 39 3a 3b 3c 3d 3e 3f 40 41 42 43 44 45 46 47  89:;<=>?@ABCDEFG\n00000010  48 49${" ".repeat(42)}  HI`,
    );
  });
});

describe("JSON", () => {
  test.each([
    ["{}", "{}"],
    ["[{},[]]", "[\n  {},\n  []\n]"],
    ['{"a":{"b":[1,"{,}"]}}', '{\n  "a": {\n    "b": [\n      1,\n      "{,}"\n    ]\n  }\n}'],
    ["12345678901234567890", "12345678901234567890"],
    ['{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'],
    ['"\\"]"', '"\\"]"'],
  ])("%s", (text, pretty) => {
    expect(prettyJson(text)).toBe(pretty);
    expect(JSON.parse(pretty)).toEqual(JSON.parse(text));
  });

  test.each(["", "{", '{"a":1,', "nonsense", "[".repeat(200_000)])("%.20j is none", (text) =>
    expect(prettyJson(text)).toBeUndefined(),
  );

  test("deep nesting does not grow without bound", () => {
    const deep = `${"[".repeat(3000)}${"]".repeat(3000)}`;
    expect(prettyJson(deep)?.length ?? 0).toBeLessThan(1_000_000);
  });
});
