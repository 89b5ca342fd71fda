import { expect, test } from "vitest";
import { linkTarget } from "../src/model/markdown-links";

test.each([
  ["b.md", "a/", "object a/b.md"],
  ["./b/c/", "a/", "folder a/b/c/"],
  ["../b", "a/c/", "object a/b"],
  ["..", "a/c/", "folder a/"],
  ["/b", "a/", "object b"],
  ["/", "a/", "folder "],
  ["b%20c.md?raw=1#top", "", "object b c.md"],
  ["100%", "", "object 100%"],
  ["https://example.org/x", "a/", "elsewhere https://example.org/x"],
  ["mailto:ana@example.org", "", "elsewhere mailto:ana@example.org"],
  ["../../b", "a/", "nothing"],
  ["#top", "a/", "nothing"],
  ["", "a/", "nothing"],
  ["javascript:alert(1)", "", "nothing"],
  [" JaVaScRiPt:alert(1)", "", "nothing"],
  ["java\nscript:alert(1)", "", "nothing"],
  ["data:text/html,x", "", "nothing"],
  ["vbscript:x", "", "nothing"],
  ["//evil.example/x", "", "nothing"],
  ["\\\\evil.example\\x", "", "nothing"],
])("%j in %j is %s", (link, folder, expected) => {
  const target = linkTarget(link, folder);
  const rest = target.kind === "elsewhere" ? ` ${target.url}` : target.kind === "nothing" ? "" : ` ${target.path}`;
  expect(target.kind + rest).toBe(expected);
});
