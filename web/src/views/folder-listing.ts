/** The pages of a folder's listing, all of one state of the ref. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { listObjects } from "../api/endpoints";
import { isAbort } from "../api/errors";
import type { ObjectStats } from "../api/schema";
import { justBefore, MOST_SORTED } from "../model/listing";
import { useResource } from "../parts/resource";

const PAGE = 1000;

/** What to list: the entries below `prefix` from `from` on; `all` asks for everything that the page can sort. */
export interface Span {
  readonly prefix: string;
  readonly from: string;
  readonly all: boolean;
}

/** A listing that grows: `more` loads the next page. */
export interface Listing {
  readonly entries: readonly ObjectStats[] | undefined;
  readonly complete: boolean;
  readonly error: unknown;
  readonly pending: boolean;
  readonly more: () => void;
  readonly reload: () => void;
}

interface Pages {
  readonly entries: readonly ObjectStats[];
  /** Where the next page begins; empty after the last one. */
  readonly next: string;
  /** The ref and state that all pages are read from. */
  readonly ref: string;
  readonly state: string | undefined;
}

/** Lists a folder of a ref; a ref of `null` is not known yet. */
export function useListing(repository: string, ref: string | null, { prefix, from, all }: Span): Listing {
  const key = ref === null ? null : JSON.stringify([repository, ref, prefix, from]);
  const first = useResource(key, (signal) => firstPage(repository, ref ?? "", prefix, from, signal));
  const [further, setFurther] = useState<{ readonly of: Pages; readonly pages: Pages; readonly error: unknown }>();
  const grown = further && further.of === first.value ? further : undefined;
  const pages = grown?.pages ?? first.value;
  const loading = useRef<AbortController | undefined>(undefined);
  useEffect(() => {
    if (first.value) return () => loading.current?.abort();
    return undefined;
  }, [first.value]);
  const more = useCallback(() => {
    const of = first.value;
    if (!of || !pages?.next || (loading.current && !loading.current.signal.aborted)) return;
    const abort = new AbortController();
    loading.current = abort;
    nextPage(repository, prefix, pages, abort.signal)
      .then(
        (page) => {
          if (!abort.signal.aborted) setFurther({ of, pages: page, error: undefined });
        },
        (error: unknown) => {
          if (!isAbort(error)) setFurther({ of, pages, error });
        },
      )
      .finally(() => abort.abort());
  }, [repository, prefix, first.value, pages]);
  const failed = grown?.error !== undefined;
  useEffect(() => {
    if (all && !failed && pages && pages.entries.length < MOST_SORTED) more();
  }, [all, failed, pages, more]);
  return {
    entries: pages?.entries,
    complete: pages?.next === "",
    error: first.error ?? grown?.error,
    pending: first.pending,
    more,
    reload: first.reload,
  };
}

async function firstPage(repository: string, ref: string, prefix: string, from: string, signal: AbortSignal): Promise<Pages> {
  const query = { prefix, delimiter: "/", amount: PAGE, after: from && justBefore(prefix + from) };
  const { document, headers } = await listObjects(repository, ref, query, signal);
  const state = headers.get("x-graveler-state") ?? undefined;
  // Without a state, as of a tag or an expression, the commit is the state.
  const read = state ? ref : (headers.get("x-graveler-commit") ?? ref);
  return { entries: document.results, next: nextOf(document), ref: read, state };
}

async function nextPage(repository: string, prefix: string, pages: Pages, signal: AbortSignal): Promise<Pages> {
  const query = { prefix, delimiter: "/", amount: PAGE, after: pages.next, state: pages.state };
  const { document } = await listObjects(repository, pages.ref, query, signal);
  return { ...pages, entries: [...pages.entries, ...document.results], next: nextOf(document) };
}

function nextOf(document: { readonly pagination: { readonly has_more: boolean; readonly next_offset: string } }): string {
  return document.pagination.has_more ? document.pagination.next_offset : "";
}
