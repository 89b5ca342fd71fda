import { expect, test } from "vitest";
import { decide, decisionFor, formatDecisions, parseDecisions, reachFurther, strategiesOf } from "../src/model/decisions";

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

test("an object's own decision counts, or else that of the innermost folder", () => {
  const decisions = parseDecisions("s:a/,d:a/b");
  expect(decisionFor(decisions, "a/x")).toEqual(["source", "a/"]);
  expect(decisionFor(decisions, "a/b")).toEqual(["destination", "a/b"]);
  expect(decisionFor(decisions, "a/b.csv")).toEqual(["source", "a/"]);
  expect(decisionFor(decisions, "c")).toBeUndefined();
});

test("a decision for a folder replaces those in it, and can be taken back", () => {
  const decisions = decide(parseDecisions("d:a/b,s:c"), "a/", "source");
  expect(formatDecisions(decisions)).toBe("s:a/,s:c");
  expect(formatDecisions(decide(decisions, "a/", undefined))).toBe("s:c");
  expect(formatDecisions(decide(parseDecisions("s:a,s:ab"), "a", "destination"))).toBe("d:a,s:ab");
  expect(strategiesOf(decide(decisions, "c", "destination"), ["a/b", "c"])).toEqual([
    { prefix: "a/", strategy: "source-wins" },
    { prefix: "c", strategy: "dest-wins" },
  ]);
});

test("a decision for an object reaches no other whose path begins so", () => {
  const decisions = parseDecisions("s:,d:a,d:b/c");
  const paths = ["b/c", "a/x", "ab", "a", "a/x/y", "b/c.csv"];
  expect(strategiesOf(decisions, paths)).toEqual([
    { prefix: "", strategy: "source-wins" },
    { prefix: "a", strategy: "dest-wins" },
    { prefix: "b/c", strategy: "dest-wins" },
    { prefix: "a/x", strategy: "source-wins" },
    { prefix: "ab", strategy: "source-wins" },
    { prefix: "b/c.csv", strategy: "source-wins" },
  ]);
  expect(strategiesOf(parseDecisions("d:a"), ["a", "ab"])).toEqual([
    { prefix: "a", strategy: "dest-wins" },
    { prefix: "ab", strategy: "" },
  ]);
  expect([reachFurther(decisions), reachFurther(parseDecisions("s:,d:b/"))]).toEqual([true, false]);
});
