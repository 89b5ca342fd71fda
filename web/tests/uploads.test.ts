import { describe, expect, test } from "vitest";
import { listedUploads, PART_BYTES, partsOf, sumOf, type Upload, withChange, withFiles } from "../src/model/uploads";

const GIB = 2 ** 30;

describe("parts", () => {
  test.each([0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES, 3 * GIB + 7, 5000 * GIB])(
    "of %d bytes cover them in order",
    (size) => {
      const parts = partsOf(size);
      expect(parts[0]?.[0]).toBe(0);
      expect(parts.at(-1)?.[1]).toBe(size);
      for (const [number, [start, end]] of parts.entries()) {
        expect(end - start).toBeGreaterThan(size ? 0 : -1);
        if (number > 0) expect(start).toBe(parts[number - 1]?.[1]);
      }
      expect(parts.length).toBeLessThanOrEqual(1000);
      for (const [start, end] of parts.slice(0, -1)) expect(end - start).toBeGreaterThanOrEqual(PART_BYTES);
    },
  );
});

describe("uploads", () => {
  const files = withFiles(
    [],
    [
      { path: "a", size: 10 },
      { path: "b", size: 30 },
    ],
  );

  test("are summed up without the cancelled ones", () => {
    const sending = withChange(withChange(files, "a", { state: "sending", sent: 4 }), "b", { state: "cancelled" });
    expect(sumOf(sending)).toEqual({ files: 1, done: 0, failed: 0, bytes: 10, sent: 4, running: true });
    expect(sumOf(withChange(sending, "a", { state: "done" }))).toMatchObject({ done: 1, sent: 10, running: false });
    expect(sumOf([])).toEqual({ files: 0, done: 0, failed: 0, bytes: 0, sent: 0, running: false });
  });

  test("a file that is chosen again replaces what ended, not what runs", () => {
    const ended = withChange(withChange(files, "a", { state: "failed", problem: "x" }), "b", { state: "sending", sent: 3 });
    const again = withFiles(ended, [
      { path: "a", size: 11 },
      { path: "b", size: 31 },
    ]);
    const shown = (upload: Upload) => [upload.path, upload.size, upload.state, upload.problem];
    expect(again.map(shown)).toEqual([
      ["b", 30, "sending", ""],
      ["a", 11, "waiting", ""],
    ]);
  });
});

test("of many uploads those that failed and those that are sent are listed first", () => {
  const states = ["waiting", "done", "sending", "cancelled", "waiting", "failed", "waiting"] as const;
  const uploads = states.map((state, number) => ({ path: String(number), size: 1, sent: 0, state, problem: "" }));
  const { shown, others } = listedUploads(uploads, 3);
  expect([shown.map(({ path }) => path), others]).toEqual([["5", "2", "0"], 2]);
  expect(listedUploads(uploads, 20).others).toBe(0);
});
