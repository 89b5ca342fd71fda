/** The list of repositories, and the first minute of a lake that has none. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { createRepository, getConfig, getUsage, listRepositories } from "../api/endpoints";
import { isAbort } from "../api/errors";
import type { ListedRepository, UsageDocument } from "../api/schema";
import type { Address } from "../model/addresses";
import { size } from "../model/text";
import { Code, CommitId, Failure, Name, Subject, Waiting, When } from "../parts/basics";
import { useDebounced } from "../parts/debounced";
import { Dialog } from "../parts/dialog";
import { go, Link, setQuery, useTitle } from "../parts/navigation";
import { pageOf, usePages } from "../parts/pages";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { isAdmin } from "./session";

const PAGE = 100;
const DETAILS = "commit,metadata";
const COLUMNS: readonly Column[] = [
  { title: "Name", kind: "name" },
  { title: "Default branch" },
  { title: "Last commit" },
  { title: "When" },
  { title: "Size", kind: "number" },
  { title: "State" },
];

/** The repositories whose names or metadata contain `search`. */
export function Repositories({ address }: { readonly address: Address }) {
  useTitle("Repositories");
  const search = useDebounced(address.query.search ?? "");
  const [creating, setCreating] = useState(false);
  const list = usePages(JSON.stringify([search, address.query.after ?? ""]), async (after, signal) =>
    pageOf(await listRepositories({ search, amount: PAGE, details: DETAILS, after: after || address.query.after }, signal)),
  );
  const usages = useUsages();
  const { load } = usages;
  const { items: rows } = list;
  const rest = useCallback((first: number, end: number) => load(rows.slice(first, end)), [load, rows]);
  return (
    <main>
      <div class="heading">
        <h1>Repositories</h1>
        <span class="heading-end">
          <input
            type="search"
            aria-label="Search repositories"
            placeholder="Search names and metadata"
            value={address.query.search ?? ""}
            onInput={(event) => setQuery({ search: event.currentTarget.value, after: "" }, true)}
          />
          {isAdmin.value && (
            <button type="button" onClick={() => setCreating(true)}>
              New repository
            </button>
          )}
        </span>
      </div>
      {list.error !== undefined && <Failure error={list.error} retry={list.reload} />}
      {list.pending && !rows.length && <Waiting>Loading the repositories…</Waiting>}
      {list.loaded && !rows.length && (search ? <p>No repository's name or metadata contains “{search}”.</p> : <EmptyLake />)}
      {rows.length > 0 && (
        <Table
          label="Repositories"
          columns={COLUMNS}
          rows={rows.length}
          row={(number) => rowOf(rows[number] as ListedRepository, usages.of)}
          more={list.more}
          rest={rest}
        />
      )}
      {creating && <NewRepository close={() => setCreating(false)} />}
    </main>
  );
}

type Usages = ReadonlyMap<string, UsageDocument | "none">;

/** The sizes of the rows in sight: each is asked for once, when it has come to rest. */
function useUsages(): { readonly of: Usages; readonly load: (rows: readonly ListedRepository[]) => void } {
  const [of, setOf] = useState<Usages>(new Map());
  const [abort] = useState(() => new AbortController());
  const [asked] = useState(() => new Set<string>());
  useEffect(() => () => abort.abort(), [abort]);
  const load = useCallback(
    (rows: readonly ListedRepository[]) => {
      const note = (id: string, usage: UsageDocument | "none") => setOf((before) => new Map(before).set(id, usage));
      for (const { id, default_branch } of rows) {
        if (asked.has(id)) continue;
        asked.add(id);
        getUsage(id, default_branch, {}, abort.signal).then(
          (usage) => note(id, usage),
          (error: unknown) => !isAbort(error) && note(id, "none"),
        );
      }
    },
    [abort, asked],
  );
  return { of, load };
}

function rowOf(repository: ListedRepository, usages: Usages): Row {
  const { id, default_branch, commit, metadata = {} } = repository;
  const usage = usages.get(id);
  const isEmpty = !commit?.parents.length;
  const facts = Object.entries(metadata).map(([key, value]) => `${key}: ${value}`);
  return {
    key: id,
    cells: [
      <span key="name">
        <Link to={{ screen: "objects", repository: id, query: { ref: default_branch } }}>
          <Name text={id} />
        </Link>{" "}
        {facts.length > 0 && (
          <span class="hint">
            <Name text={facts.join(", ")} most={60} />
          </span>
        )}
      </span>,
      <Name key="branch" text={default_branch} most={40} />,
      commit && !isEmpty ? (
        <span key="commit">
          <CommitId repository={id} id={commit.id} /> <Subject message={commit.message} most={48} />
        </span>
      ) : (
        <span key="commit" class="hint">
          nothing committed yet
        </span>
      ),
      commit && !isEmpty && <When key="when" time={commit.creation_date} />,
      usage === "none" ? "–" : usage && size(usage.size_bytes),
      repository.read_only && "read-only",
    ],
  };
}

function EmptyLake() {
  return (
    <section class="prose">
      <p>This lake has no repository yet. “New repository” makes one, and so does either of these:</p>
      <Code text="graveler demo" />
      <Code text="graveler repo create lakefs://sales" />
    </section>
  );
}

function NewRepository({ close }: { readonly close: () => void }) {
  const config = useResource("config", getConfig);
  const [name, setName] = useState("");
  const [namespace, setNamespace] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const prefix = config.value?.storage_config.default_namespace_prefix;
  const shown = namespace ?? (prefix === undefined ? "" : `${prefix}/${name}`);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setError(undefined);
    createRepository({
      name,
      storage_namespace: shown,
      default_branch: String(fields.get("branch")),
      sample_data: fields.get("sample") === "on",
    })
      .then(
        ({ id, default_branch }) => go({ screen: "objects", repository: id, query: { ref: default_branch } }),
        (reason: unknown) => setError(reason),
      )
      .finally(() => setBusy(false));
  };
  return (
    <Dialog label="New repository" close={close}>
      <h2>New repository</h2>
      <form class="form" onSubmit={submit}>
        <label>
          Name
          <input
            required
            spellcheck={false}
            autocomplete="off"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label>
          Storage namespace: where its objects are stored
          <input required spellcheck={false} value={shown} onInput={(event) => setNamespace(event.currentTarget.value)} />
        </label>
        <label>
          Default branch
          <input name="branch" required spellcheck={false} defaultValue="main" />
        </label>
        <label class="choice">
          <input name="sample" type="checkbox" />
          With sample data, 1.1 MB
        </label>
        {error !== undefined && <Failure error={error} />}
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Creating…" : "Create"}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
