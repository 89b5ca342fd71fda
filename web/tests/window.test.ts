import { expect, test } from "vitest";
import { rowWindow } from "../src/model/window";

test("the drawn rows cover the view, and the heights add up", () => {
  for (const rows of [0, 1, 199, 10_000]) {
    for (const offset of [0, 31, 32, 5_000, 10_000 * 32, 10 ** 9]) {
      const drawn = rowWindow(rows, 32, offset, 900, 3);
      expect(drawn.above + (drawn.end - drawn.first) * 32 + drawn.below).toBe(rows * 32);
      expect(drawn.first).toBeLessThanOrEqual(drawn.end);
      const top = Math.min(rows, Math.floor(offset / 32));
      const bottom = Math.min(rows, Math.ceil((offset + 900) / 32));
      expect(drawn.first).toBeLessThanOrEqual(top);
      expect(drawn.end).toBeGreaterThanOrEqual(bottom);
      expect(drawn.end - drawn.first).toBeLessThanOrEqual(900 / 32 + 8);
    }
  }
});
