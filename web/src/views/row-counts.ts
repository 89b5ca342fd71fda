/** Numbers of rows of the Parquet files whose footers were read in this tab. */
import { signal } from "@preact/signals";

/** What a file's contents are known by. */
interface Contents {
  readonly repository: string;
  readonly path: string;
  readonly checksum: string;
}

const counts = signal<ReadonlyMap<string, number>>(new Map());

const keyOf = ({ repository, path, checksum }: Contents) => JSON.stringify([repository, path, checksum]);

/** Remembers the number of rows that a file's footer names. */
export function noteRows(contents: Contents, rows: number): void {
  const key = keyOf(contents);
  if (counts.value.get(key) !== rows) counts.value = new Map(counts.value).set(key, rows);
}

/** Returns the number of rows of a file; undefined if its footer was not read. */
export function knownRows(contents: Contents): number | undefined {
  return counts.value.get(keyOf(contents));
}
