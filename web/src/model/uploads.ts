/** Uploads: parts, paths and progress. */
import type { ByteRange } from "./ranges";

/** From this size on a file is uploaded in parts, in bytes. */
export const PART_BYTES = 16 << 20;
const MOST_PARTS = 1000;

/** Returns the parts of a file: one for a small one, and otherwise equal ones of at least 16 MiB, a thousand at most. */
export function partsOf(size: number): readonly ByteRange[] {
  const bytes = Math.max(PART_BYTES, Math.ceil(size / MOST_PARTS));
  const parts: ByteRange[] = [];
  for (let start = 0; start < size; start += bytes) parts.push([start, Math.min(start + bytes, size)]);
  return parts.length ? parts : [[0, 0]];
}

export type UploadState = "waiting" | "sending" | "done" | "failed" | "cancelled";

/** A file on its way to a path. */
export interface Upload {
  readonly path: string;
  readonly size: number;
  /** Bytes that were sent. */
  readonly sent: number;
  readonly state: UploadState;
  /** Why it failed. */
  readonly problem: string;
}

/** Numbers of all uploads together. */
export interface UploadSum {
  readonly files: number;
  readonly done: number;
  readonly failed: number;
  readonly bytes: number;
  readonly sent: number;
  readonly running: boolean;
}

/** Sums up uploads; cancelled ones do not count. */
export function sumOf(uploads: readonly Upload[]): UploadSum {
  const counted = uploads.filter((upload) => upload.state !== "cancelled");
  const number = (state: UploadState) => counted.filter((upload) => upload.state === state).length;
  return {
    files: counted.length,
    done: number("done"),
    failed: number("failed"),
    bytes: counted.reduce((sum, upload) => sum + upload.size, 0),
    sent: counted.reduce((sum, upload) => sum + (upload.state === "done" ? upload.size : upload.sent), 0),
    running: number("waiting") + number("sending") > 0,
  };
}

const LISTED: readonly UploadState[] = ["failed", "sending", "waiting"];

/** Returns the uploads to list: those that failed, that are sent and that wait, `most` in all, and the number of the others. */
export function listedUploads(
  uploads: readonly Upload[],
  most: number,
): { readonly shown: readonly Upload[]; readonly others: number } {
  const unfinished = LISTED.flatMap((state) => uploads.filter((upload) => upload.state === state));
  return { shown: unfinished.slice(0, most), others: Math.max(0, unfinished.length - most) };
}

/** Returns uploads with a change of one of them. */
export function withChange(uploads: readonly Upload[], path: string, change: Partial<Upload>): readonly Upload[] {
  return uploads.map((upload) => (upload.path === path ? { ...upload, ...change } : upload));
}

/** Returns uploads with further ones behind them. One that is named again replaces the former, unless that is still on its way. */
export function withFiles(
  uploads: readonly Upload[],
  files: readonly { readonly path: string; readonly size: number }[],
): readonly Upload[] {
  const running = new Set(uploads.filter(({ state }) => state === "waiting" || state === "sending").map(({ path }) => path));
  const added = new Map(files.filter(({ path }) => !running.has(path)).map((file) => [file.path, file]));
  const kept = uploads.filter(({ path }) => !added.has(path));
  const fresh = [...added.values()].map(({ path, size }): Upload => ({ path, size, sent: 0, state: "waiting", problem: "" }));
  return [...kept, ...fresh];
}
