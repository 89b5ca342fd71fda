import { expect, test } from "vitest";
import { ReadRanges } from "../src/model/ranges";

const WHOLE = Uint8Array.from({ length: 100 }, (_, place) => place);

test("only what is missing is read, and every range comes back unchanged", () => {
  const ranges = new ReadRanges();
  const reads: [number, number][] = [
    [10, 20],
    [40, 50],
    [15, 45],
    [0, 100],
    [99, 100],
  ];
  let sum = 0;
  for (const [start, end] of reads) {
    for (const [from, to] of ranges.gaps([start, end])) {
      ranges.add(from, WHOLE.subarray(from, to));
      sum += to - from;
    }
    expect(ranges.gaps([start, end])).toEqual([]);
    expect([...ranges.take([start, end])]).toEqual([...WHOLE.subarray(start, end)]);
    expect(ranges.read).toBe(sum);
  }
  expect(sum).toBe(100);
});

test("bytes that two reads brought are counted twice and kept once", () => {
  const ranges = new ReadRanges();
  ranges.add(0, WHOLE.subarray(0, 30));
  ranges.add(20, WHOLE.subarray(20, 40));
  expect(ranges.read).toBe(50);
  expect([...ranges.take([10, 40])]).toEqual([...WHOLE.subarray(10, 40)]);
});
