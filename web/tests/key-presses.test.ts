import { expect, test } from "vitest";
import { pressKey } from "../src/model/key-presses";

const NAMES = new Set(["b", "?", "g d", "g h"]);

test("a single key means itself", () => {
  expect(pressKey(NAMES, undefined, "b", 0)).toEqual({ name: "b", pending: undefined });
  expect(pressKey(NAMES, undefined, "z", 0)).toEqual({ name: undefined, pending: undefined });
});

test("a pair is pressed within a second", () => {
  const { pending } = pressKey(NAMES, undefined, "g", 0);
  expect(pending).toEqual({ key: "g", time: 0 });
  expect(pressKey(NAMES, pending, "d", 999)).toEqual({ name: "g d", pending: undefined });
  expect(pressKey(NAMES, pending, "d", 1001)).toEqual({ name: undefined, pending: undefined });
});

test("another key after the first of a pair means itself", () => {
  expect(pressKey(NAMES, { key: "g", time: 0 }, "b", 10)).toEqual({ name: "b", pending: undefined });
});

test("the first key of a pair, pressed twice, waits again", () => {
  const second = pressKey(NAMES, { key: "g", time: 0 }, "g", 10);
  expect(pressKey(NAMES, second.pending, "h", 20).name).toBe("g h");
});
