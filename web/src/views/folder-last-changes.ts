/** The last commit of each visible entry of a folder, asked for once the table rests. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { annotate } from "../api/endpoints";
import { isAbort, sentenceOf } from "../api/errors";
import type { AnnotationList, Commit } from "../api/schema";
import { type Entry, isRemoved, justBefore, runsOf } from "../model/listing";

const WITHIN_SECONDS = 2;
const MOST_AT_ONCE = 1000;
const GAP = 50;
const NOTHING: LastChange = { commit: undefined, error: "" };

/** The commit that last changed an entry; neither it nor an error while it is being looked for, or where no commit has it yet. */
export interface LastChange {
  readonly commit: Commit | undefined;
  readonly error: string;
}

/** Last changes by path, and what to call with the visible rows. */
export interface LastChanges {
  readonly of: (path: string) => LastChange;
  readonly show: (first: number, end: number) => void;
}

/**
 * Looks for the last changes of the entries that are shown. `rows` are the listed ones in the order of their keys, `entries` the same as the
 * table shows them.
 */
export function useLastChanges(
  repository: string,
  ref: string | null,
  prefix: string,
  rows: readonly Entry[],
  entries: readonly Entry[],
): LastChanges {
  const key = JSON.stringify([repository, ref, prefix]);
  const changes = useRef({ key, byPath: new Map<string, LastChange>(), asked: new Set<string>() });
  if (changes.current.key !== key) changes.current = { key, byPath: new Map(), asked: new Set() };
  const [, setRound] = useState(0);
  const abort = useRef(new AbortController());
  // biome-ignore lint/correctness/useExhaustiveDependencies: another folder ends the requests of this one.
  useEffect(() => {
    const controller = new AbortController();
    abort.current = controller;
    return () => controller.abort();
  }, [key]);
  const shown = useRef({ rows, entries });
  shown.current = { rows, entries };
  const show = useCallback(
    (first: number, end: number) => {
      const { rows, entries } = shown.current;
      const { byPath, asked } = changes.current;
      const wanted = new Set(
        entries
          .slice(first, end)
          .filter((entry) => !isRemoved(entry) && !asked.has(entry.path))
          .map((entry) => entry.path),
      );
      if (ref === null || !wanted.size) return;
      const places = rows.flatMap((row, place) => (wanted.has(row.path) ? [place] : []));
      const { signal } = abort.current;
      for (const [start, stop] of runsOf(places, GAP)) {
        const paths = rows.slice(start, Math.min(stop, start + MOST_AT_ONCE)).map((row) => row.path);
        for (const path of paths) asked.add(path);
        const note = (document: AnnotationList) => {
          for (const { path, commit } of document.results) if (commit) byPath.set(path, { commit, error: "" });
          setRound((round) => round + 1);
        };
        look(repository, ref, prefix, paths, note, signal).catch((error: unknown) => {
          if (isAbort(error)) return;
          for (const path of paths) if (!byPath.has(path)) byPath.set(path, { commit: undefined, error: sentenceOf(error) });
          setRound((round) => round + 1);
        });
      }
    },
    [repository, ref, prefix],
  );
  return { of: (path) => changes.current.byPath.get(path) ?? NOTHING, show };
}

async function look(
  repository: string,
  ref: string,
  prefix: string,
  paths: readonly string[],
  note: (document: AnnotationList) => void,
  signal: AbortSignal,
): Promise<void> {
  const query = { prefix, delimiter: "/", after: justBefore(paths[0] ?? ""), amount: paths.length, within: WITHIN_SECONDS };
  let next: string | undefined;
  do {
    const document = await annotate(repository, ref, { ...query, next }, signal);
    note(document);
    next = document.next;
  } while (next);
}
