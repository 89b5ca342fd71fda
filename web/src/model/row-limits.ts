/** Which tables the page compares by rows, and how large they may be. */
import { previewKind } from "./previews";
import type { Pair } from "./row-codes";
import { count, size } from "./text";

/** Bytes of a side that are compared. */
export const MOST_BYTES = 64 << 20;
/** Bytes of both sides that are read without asking. */
export const FEW_BYTES = 16 << 20;
const MOST_ROWS = 500_000;

export type RowFormat = "parquet" | "csv";

/** Returns the format of a table whose rows the page compares, by its name; undefined for anything else. */
export function rowFormat(path: string): RowFormat | undefined {
  const kind = previewKind(path, "");
  return kind === "parquet" || kind === "csv" ? kind : undefined;
}

/** Returns why tables of these sizes are not compared here; undefined if they are. */
export function tooManyBytes(bytes: Pair<number>): string | undefined {
  const most = Math.max(...bytes);
  return most > MOST_BYTES
    ? `${size(most)} on one side; the page compares rows of up to ${size(MOST_BYTES)} a side.`
    : undefined;
}

/** Throws an error if a side has too many rows. */
export function expectRows(rows: number): void {
  if (rows > MOST_ROWS) throw new Error(`more than ${count(MOST_ROWS)} rows on one side; the page compares no more`);
}
