/** Documents that a component shows: loaded when its key changes, aborted when it leaves the page. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/errors";

/** A document on its way: `value` is the last one for this key, `error` why there is none, `pending` that one is being loaded. */
export interface Resource<T> {
  readonly value: T | undefined;
  readonly error: unknown;
  readonly pending: boolean;
  readonly reload: () => void;
}

interface State<T> {
  readonly key: string;
  readonly value: T | undefined;
  readonly error: unknown;
  readonly pending: boolean;
}

/**
 * Loads a document for a key, and again whenever the key changes or `reload` is called. A key of `null` loads nothing. The value of another
 * key is never shown; that of the same key stays while it is loaded again.
 */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<State<T>>({ key: "", value: undefined, error: undefined, pending: false });
  const newest = useRef(load);
  newest.current = load;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `round` starts the same request again.
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    setState((before) => ({ key, value: before.key === key ? before.value : undefined, error: undefined, pending: true }));
    newest.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, error: undefined, pending: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted && !isAbort(error)) {
          setState((before) => ({ key, value: before.key === key ? before.value : undefined, error, pending: false }));
        }
      },
    );
    return () => abort.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  if (key === null) return { value: undefined, error: undefined, pending: false, reload };
  if (state.key !== key) return { value: undefined, error: undefined, pending: true, reload };
  return { value: state.value, error: state.error, pending: state.pending, reload };
}
