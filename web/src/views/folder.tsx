/** A folder of a ref. */
import { listObjects } from "../api/endpoints";
import type { ObjectStats } from "../api/schema";
import type { Address } from "../model/addresses";
import { nameIn, size } from "../model/text";
import { Failure, Name, Waiting, When } from "../parts/basics";
import { Link, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { useShownRef } from "./shown-ref";

const COLUMNS: readonly Column[] = [{ title: "Name", kind: "name" }, { title: "Size", kind: "number" }, { title: "Written" }];

/** The folders and objects below `path`. */
export function Folder({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const prefix = query.path ?? "";
  const { ref, error } = useShownRef();
  useTitle(prefix, repository);
  const page = useResource(ref === null ? null : `${repository} ${ref} ${prefix}`, (signal) =>
    listObjects(repository, ref ?? "", { prefix, delimiter: "/", amount: 1000 }, signal),
  );
  const failure = error ?? page.error;
  if (failure !== undefined) return <Failure error={failure} retry={page.reload} />;
  if (!page.value) return <Waiting>Loading the folder…</Waiting>;
  const entries = page.value.document.results;
  const row = (number: number): Row => {
    const entry = entries[number] as ObjectStats;
    const folder = entry.path_type === "common_prefix";
    const target = { screen: folder ? "objects" : "object", repository, query: { ref: ref ?? "", path: entry.path } } as const;
    return {
      key: entry.path,
      cells: [
        <Link key="name" to={target}>
          <Name text={nameIn(entry.path, prefix)} />
        </Link>,
        folder ? "" : size(entry.size_bytes ?? 0),
        folder ? "" : <When time={entry.mtime} />,
      ],
    };
  };
  return (
    <main>
      <Table label="Folder" columns={COLUMNS} rows={entries.length} row={row} />
    </main>
  );
}
