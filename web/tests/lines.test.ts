import { expect, test } from "vitest";
import { compareLines, linesOf, withContext } from "../src/model/lines";

function texts(seed: number): readonly [readonly string[], readonly string[]] {
  let state = seed + 1;
  const below = (limit: number) => {
    state = (Math.imul(state, 48271) + 11) % 2147483647;
    return Math.abs(state) % limit;
  };
  const left = Array.from({ length: below(30) }, () => "abcdef"[below(6)] as string);
  const right = left.flatMap((line) => {
    const dice = below(10);
    return dice === 0 ? [] : dice === 1 ? ["x", line] : dice === 2 ? ["y"] : [line];
  });
  return [left, right];
}

function longestCommon(left: readonly string[], right: readonly string[]): number {
  let above: number[] = Array(right.length + 1).fill(0);
  for (const line of left) {
    const row = [0];
    for (const [index, other] of right.entries()) {
      row.push(line === other ? (above[index] as number) + 1 : Math.max(row[index] as number, above[index + 1] as number));
    }
    above = row;
  }
  return above[right.length] as number;
}

test("hunks hold every line of both texts in order, and as many equal ones as there can be", () => {
  for (let seed = 0; seed < 500; seed += 1) {
    const [left, right] = texts(seed);
    const hunks = compareLines(left, right);
    const pairs = hunks.flatMap((hunk) => hunk.pairs);
    expect(pairs.flatMap((pair) => (pair.left ? [pair.left.text] : []))).toEqual(left);
    expect(pairs.flatMap((pair) => (pair.right ? [pair.right.text] : []))).toEqual(right);
    const equal = hunks.filter((hunk) => hunk.equal).flatMap((hunk) => hunk.pairs);
    for (const pair of equal) expect(pair.left?.text).toBe(pair.right?.text);
    expect(equal.length, `seed ${seed}`).toBe(longestCommon(left, right));
  }
});

test("texts that have nothing in common are one hunk", () => {
  const left = Array.from({ length: 3000 }, (_, number) => `left ${number}`);
  const right = Array.from({ length: 2000 }, (_, number) => `right ${number}`);
  const hunks = compareLines(left, right);
  expect(hunks).toHaveLength(1);
  expect(hunks[0]?.pairs).toHaveLength(3000);
});

test("a newline at the end begins no line", () => {
  expect(linesOf("a\nb\n")).toEqual(["a", "b"]);
  expect(linesOf("a\nb")).toEqual(["a", "b"]);
  expect(linesOf("")).toEqual([]);
});

test("equal lines far from a difference are counted, not shown", () => {
  const left = Array.from({ length: 100 }, (_, number) => `${number}`);
  const right = left.with(50, "new");
  const parts = withContext(compareLines(left, right));
  expect(parts.map(({ skipped, hunk }) => [skipped, hunk.equal, hunk.pairs.length])).toEqual([
    [47, true, 3],
    [0, false, 1],
    [0, true, 3],
    [46, true, 0],
  ]);
});
