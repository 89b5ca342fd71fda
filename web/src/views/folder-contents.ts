/** What is known of a folder: its listing first, then counts, marks and last changes, each by itself. */
import { diffBranch, getUsage, summarizeUncommitted } from "../api/endpoints";
import { sentenceOf } from "../api/errors";
import type { UsageDocument, UsagePartDocument } from "../api/schema";
import { type Entry, marksOf, rowsOf } from "../model/listing";
import { type Resource, useResource } from "../parts/resource";
import { type Listing, useListing } from "./folder-listing";
import { useShownRef } from "./shown-ref";

const NOTHING: readonly never[] = [];
const NO_MARKS: ReadonlyMap<string, never> = new Map<string, never>();
const NO_COUNTS: ReadonlyMap<string, UsagePartDocument> = new Map();

/** A folder's rows in the order of their keys, and the sentences of what could not be loaded. */
export interface Contents {
  readonly listing: Listing;
  readonly rows: readonly Entry[];
  readonly usage: Resource<UsageDocument>;
  readonly failures: { readonly usage: string; readonly marks: string };
  /** Loads all of it again, after a change. */
  readonly reload: () => void;
}

/** The part of a folder to show: names that begin with `start`, from `after` on; `all` of them if they are to be sorted. */
export interface Part {
  readonly path: string;
  readonly start: string;
  readonly after: string;
  readonly all: boolean;
}

/** Loads a part of a folder of a ref. */
export function useContents(repository: string, ref: string, { path, start, after, all }: Part): Contents {
  const prefix = path + start;
  const listing = useListing(repository, ref, { prefix, from: after, all });
  // Everything below waits for the rows.
  const key = listing.entries ? JSON.stringify([repository, ref, prefix]) : null;
  const usage = useResource(key, (signal) => getUsage(repository, ref, { prefix, delimiter: "/" }, signal));
  const marks = useMarks(repository, ref, prefix, key);
  const rows = rowsOf(
    listing.entries ?? NOTHING,
    path,
    { counts: countsOf(usage.value), marks: marks.value ?? NO_MARKS },
    { complete: listing.complete, after: after && prefix + after },
  );
  const reload = () => {
    for (const part of [listing, usage, marks]) part.reload();
  };
  return { listing, rows, usage, reload, failures: { usage: problem(usage.error), marks: problem(marks.error) } };
}

function problem(error: unknown): string {
  return error === undefined ? "" : sentenceOf(error);
}

function countsOf(usage: UsageDocument | undefined): ReadonlyMap<string, UsagePartDocument> {
  return usage ? new Map(usage.results.map((part) => [part.path, part])) : NO_COUNTS;
}

/** Uncommitted changes of a branch's folder by path; none of other refs. A key of `null` asks for nothing. */
function useMarks(repository: string, ref: string, prefix: string, key: string | null) {
  const { description } = useShownRef();
  const branch = description?.type === "branch" && description.uncommitted !== false;
  return useResource(branch ? key : null, async (signal) => {
    const query = { prefix, delimiter: "/" };
    const [changes, summary] = await Promise.all([
      diffBranch(repository, ref, { ...query, amount: 1000 }, signal),
      summarizeUncommitted(repository, ref, query, signal),
    ]);
    return marksOf(changes.results, summary.results);
  });
}
