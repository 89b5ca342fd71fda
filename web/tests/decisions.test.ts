import { expect, test } from "vitest";
import { decide, decisionFor, formatDecisions, parseDecisions, strategiesOf } from "../src/model/decisions";

test("decisions survive an address, whatever is in a path", () => {
  const decisions = new Map([
    ["a,b:c/", "source"],
    ["d%2F.txt", "destination"],
    ["", "source"],
  ] as const);
  expect(new Map(parseDecisions(formatDecisions(decisions)))).toEqual(decisions);
  expect(formatDecisions(parseDecisions("x:1,s:%E0%A4%A,s:ok,nothing"))).toBe("s:ok");
  expect(parseDecisions("").size).toBe(0);
});

test("the longest prefix decides", () => {
  const decisions = parseDecisions("s:a/,d:a/b");
  expect(decisionFor(decisions, "a/x")).toEqual(["source", "a/"]);
  expect(decisionFor(decisions, "a/b.csv")).toEqual(["destination", "a/b"]);
  expect(decisionFor(decisions, "c")).toBeUndefined();
});

test("a decision for a folder replaces those in it, and can be taken back", () => {
  const decisions = decide(parseDecisions("d:a/b,s:c"), "a/", "source");
  expect(formatDecisions(decisions)).toBe("s:a/,s:c");
  expect(formatDecisions(decide(decisions, "a/", undefined))).toBe("s:c");
  expect(formatDecisions(decide(parseDecisions("s:a,s:ab"), "a", "destination"))).toBe("d:a,s:ab");
  expect(strategiesOf(decide(decisions, "c", "destination"))).toEqual([
    { prefix: "a/", strategy: "source-wins" },
    { prefix: "c", strategy: "dest-wins" },
  ]);
});
