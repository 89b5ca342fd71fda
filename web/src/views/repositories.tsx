/** The list of repositories, and the first minute of a lake that has none. */
import { useCallback, useState } from "preact/hooks";
import { listRepositories } from "../api/endpoints";
import type { Repository } from "../api/schema";
import type { Address } from "../model/addresses";
import { Code, Failure, Name, Waiting, When } from "../parts/basics";
import { Link, setQuery, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";

const PAGE = 100;
const COLUMNS: readonly Column[] = [
  { title: "Name", kind: "name" },
  { title: "Default branch" },
  { title: "Created" },
  { title: "State" },
];

/** The repositories whose names contain `search`. */
export function Repositories({ address }: { readonly address: Address }) {
  useTitle("Repositories");
  const search = address.query.search ?? "";
  const [further, setFurther] = useState<readonly Repository[]>([]);
  const page = useResource(search, async (signal) => {
    setFurther([]);
    return listRepositories({ search, amount: PAGE, after: address.query.after }, signal);
  });
  const [next, setNext] = useState<string>();
  const more = useCallback(() => {
    const after = next ?? page.value?.pagination.next_offset;
    if (!after) return;
    listRepositories({ search, amount: PAGE, after }).then((document) => {
      setFurther((before) => [...before, ...document.results]);
      setNext(document.pagination.next_offset);
    });
  }, [search, next, page.value]);
  const repositories = [...(page.value?.results ?? []), ...further];
  const hasMore = next === undefined ? page.value?.pagination.has_more : next !== "";
  return (
    <main>
      <div class="heading">
        <h1>Repositories</h1>
        <input
          type="search"
          aria-label="Search repositories"
          placeholder="Search names"
          value={search}
          onInput={(event) => setQuery({ search: event.currentTarget.value, after: "" }, true)}
        />
      </div>
      {page.error !== undefined && <Failure error={page.error} retry={page.reload} />}
      {!page.value && page.pending && <Waiting>Loading the repositories…</Waiting>}
      {page.value && !repositories.length && (search ? <p>No repository's name contains “{search}”.</p> : <EmptyLake />)}
      {repositories.length > 0 && (
        <Table
          label="Repositories"
          columns={COLUMNS}
          rows={repositories.length}
          row={(number) => rowOf(repositories[number] as Repository)}
          more={hasMore ? more : undefined}
        />
      )}
    </main>
  );
}

function rowOf(repository: Repository): Row {
  return {
    key: repository.id,
    cells: [
      <Link key="name" to={{ screen: "objects", repository: repository.id }}>
        <Name text={repository.id} />
      </Link>,
      <Name key="branch" text={repository.default_branch} most={40} />,
      <When key="created" time={repository.creation_date} />,
      repository.read_only ? "read-only" : "",
    ],
  };
}

function EmptyLake() {
  return (
    <section class="prose">
      <p>This lake has no repository yet. Either of these makes one:</p>
      <Code text="graveler demo" />
      <Code text="graveler repo create lakefs://sales" />
    </section>
  );
}
