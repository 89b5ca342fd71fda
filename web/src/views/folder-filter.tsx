/** Finding names in a folder: by their beginning, on the server; and in a long folder by going to a name. */
import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery } from "../parts/navigation";

const REST_MS = 150;

interface FilterProps {
  readonly query: Readonly<Record<string, string>>;
  /** Whether the folder has more entries than are listed. */
  readonly long: boolean;
}

/** A field for the beginning of names, and in a long folder one for a name to go to. */
export function Filter({ query, long }: FilterProps) {
  const [typed, setTyped] = useState(query.prefix ?? "");
  const present = useRef(query.prefix ?? "");
  if (present.current !== (query.prefix ?? "")) {
    present.current = query.prefix ?? "";
    setTyped(present.current);
  }
  useEffect(() => {
    if (typed === present.current) return;
    const timer = setTimeout(() => {
      present.current = typed;
      setQuery({ prefix: typed, after: "" }, true);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const goTo = (event: SubmitEvent) => {
    event.preventDefault();
    setQuery({ after: String(new FormData(event.currentTarget as HTMLFormElement).get("after") ?? "") });
  };
  return (
    <div class="filter">
      <input
        type="search"
        aria-label="Filter by the beginning of names"
        placeholder="Names that begin with…"
        spellcheck={false}
        size={26}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      {long && (
        <form onSubmit={goTo}>
          <input
            key={query.after}
            name="after"
            aria-label="Go to a name"
            placeholder="Go to name…"
            spellcheck={false}
            defaultValue={query.after ?? ""}
          />
          <button type="submit">Go</button>
          {query.after && (
            <button type="button" onClick={() => setQuery({ after: "" })}>
              From the beginning
            </button>
          )}
        </form>
      )}
    </div>
  );
}
