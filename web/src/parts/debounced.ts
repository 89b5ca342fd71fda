/** Values that follow another one once it rests. */
import { useEffect, useState } from "preact/hooks";

const REST_MS = 200;

/** Returns a value as it was when it last did not change for 200 ms; that of the first call at once. */
export function useDebounced<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), REST_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
