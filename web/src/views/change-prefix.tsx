/** The beginning of paths to which a change is narrowed. */
import { setQuery } from "../parts/navigation";

/** A field for the address's `prefix`; an empty one shows everything. */
export function PrefixField({ prefix }: { readonly prefix: string }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const value = String(new FormData(event.currentTarget as HTMLFormElement).get("prefix"));
    setQuery({ prefix: value, file: "" });
  };
  return (
    <form class="filter" onSubmit={submit}>
      <input
        key={prefix}
        type="search"
        name="prefix"
        aria-label="Only paths that begin with"
        placeholder="Paths that begin with…"
        spellcheck={false}
        size={26}
        defaultValue={prefix}
      />
      <button type="submit">Show</button>
      {prefix && (
        <button type="button" class="quiet" onClick={() => setQuery({ prefix: "", file: "" })}>
          Show everything
        </button>
      )}
    </form>
  );
}
