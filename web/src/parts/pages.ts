/** Lists that come in pages: the first when its key changes, each further one when it is asked for. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/errors";

/** A page: its items, and where the next one begins; none after the last. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

/** What is loaded of a list. `error` is why the last page did not come; `more` asks for the next page, or for that one again. */
export interface Pages<T> {
  readonly items: readonly T[];
  readonly loaded: boolean;
  readonly pending: boolean;
  readonly error: unknown;
  readonly more: (() => void) | undefined;
  readonly reload: () => void;
}

interface State<T> {
  readonly key: string | null;
  readonly items: readonly T[];
  readonly next: string | undefined;
  readonly loaded: boolean;
  readonly pending: boolean;
  readonly error: unknown;
}

const begun = <T>(key: string | null): State<T> => ({
  key,
  items: [],
  next: "",
  loaded: false,
  pending: key !== null,
  error: undefined,
});

/** Loads the pages of the list with this key; a key of `null` loads nothing. Requests end when the key changes or the component leaves. */
export function usePages<T>(key: string | null, load: (after: string, signal: AbortSignal) => Promise<Page<T>>): Pages<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<State<T>>(() => begun(key));
  const newest = useRef({ load, state });
  newest.current = { load, state };
  const running = useRef<AbortController>(undefined);

  const fetchPage = useCallback((list: string, after: string) => {
    const abort = new AbortController();
    running.current = abort;
    const change = (make: (before: State<T>) => Partial<State<T>>) => {
      if (!abort.signal.aborted) setState((before) => (before.key === list ? { ...before, ...make(before) } : before));
    };
    newest.current.load(after, abort.signal).then(
      ({ items, next }) => change((before) => ({ items: [...before.items, ...items], next, loaded: true, pending: false })),
      (error: unknown) => {
        if (!isAbort(error)) change(() => ({ error, pending: false }));
      },
    );
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` starts the same list again.
  useEffect(() => {
    setState(begun(key));
    if (key !== null) fetchPage(key, "");
    return () => running.current?.abort();
  }, [key, round, fetchPage]);

  const current = state.key === key ? state : begun<T>(key);
  const { items, loaded, pending, error, next } = current;
  // Another function for each page: a list that asks for more at its end asks again if a page had nothing to show.
  const more = useCallback(() => {
    if (newest.current.state.pending || next === undefined || key === null) return;
    setState((before) => ({ ...before, pending: true, error: undefined }));
    fetchPage(key, next);
  }, [fetchPage, key, next]);
  const reload = useCallback(() => setRound((before) => before + 1), []);

  return { items, loaded, pending, error, more: next === undefined ? undefined : more, reload };
}

/** Returns a page of the API's documents. */
export function pageOf<T>(document: {
  readonly results: readonly T[];
  readonly pagination: { readonly has_more: boolean; readonly next_offset: string };
}): Page<T> {
  const { has_more, next_offset } = document.pagination;
  return { items: document.results, next: has_more ? next_offset : undefined };
}
