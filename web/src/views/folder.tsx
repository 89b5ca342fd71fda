/** A folder of a ref. Its rows come first; each further column fills by itself. */
import type { Address } from "../model/addresses";
import { type Entry, formatSort, KEY_ORDER, MOST_SORTED, nextSort, parseSort, readmeIn, sorted } from "../model/listing";
import { count, visible } from "../model/text";
import { Failure, Name, Waiting } from "../parts/basics";
import { setQuery, useTitle } from "../parts/navigation";
import { type Row, Table } from "../parts/table";
import "./folder.css";
import { useContents } from "./folder-contents";
import { EmptyFolder } from "./folder-empty";
import { Filter } from "./folder-filter";
import { FolderHead } from "./folder-head";
import { useLastChanges } from "./folder-last-changes";
import { FolderReadme } from "./folder-readme";
import { columnsOf, rowOf } from "./folder-rows";
import { DropArea } from "./folder-upload";
import { useShownRef } from "./shown-ref";

/** The folders and objects below `path`. */
export function Folder({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const { ref, error } = useShownRef();
  useTitle(query.path ?? "", repository);
  if (error !== undefined) return <Failure error={error} />;
  if (ref === null) return <Waiting>Loading the folder…</Waiting>;
  return <FolderOf repository={repository} gitRef={ref} query={query} />;
}

interface FolderProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly query: Readonly<Record<string, string>>;
}

function FolderOf({ repository, gitRef, query }: FolderProps) {
  const { path = "", prefix: start = "", after = "" } = query;
  const sort = parseSort(query.sort ?? "");
  const byKey = formatSort(sort) === "";
  const { listing, rows, usage, failures, reload } = useContents(repository, gitRef, { path, start, after, all: !byKey });
  const sortable = listing.complete && rows.length <= MOST_SORTED;
  const entries = sortable ? sorted(rows, sort) : rows;
  const changes = useLastChanges(repository, gitRef, path + start, rows, entries);
  const filtered = start !== "" || after !== "";
  if (!listing.entries) {
    return (
      <main class="folder">
        <h1 class="unseen">
          <Name text={path || repository} />
        </h1>
        <DropArea repository={repository} gitRef={gitRef} path={path} done={reload}>
          {/* The same field stays while its answer is loaded: it may have the focus. */}
          <Filter key="filter" query={query} long={after !== ""} />
          {listing.error === undefined ? (
            <Waiting>Loading the folder…</Waiting>
          ) : (
            <Failure error={listing.error} retry={listing.reload} />
          )}
        </DropArea>
      </main>
    );
  }
  const row = (number: number): Row => {
    const entry = entries[number] as Entry;
    return rowOf(entry, { repository, ref: gitRef, failures, change: changes.of(entry.path) });
  };
  const shownSort = sortable ? sort : KEY_ORDER;
  return (
    <main class="folder">
      <h1 class="unseen">
        <Name text={path || repository} />
      </h1>
      <DropArea repository={repository} gitRef={gitRef} path={path} done={reload}>
        <FolderHead
          repository={repository}
          gitRef={gitRef}
          path={path}
          filtered={start !== ""}
          rows={rows}
          complete={listing.complete && !after}
          usage={usage}
        />
        {(rows.length > 0 || filtered) && <Filter key="filter" query={query} long={!listing.complete || after !== ""} />}
        {!byKey && !sortable && <OrderSentence loaded={listing.entries.length} />}
        {rows.length > 0 ? (
          <Table
            label="Folder"
            columns={columnsOf(shownSort.by, shownSort.descending, (by) =>
              setQuery({ sort: formatSort(nextSort(sort, by)) }, true),
            )}
            rows={entries.length}
            row={row}
            more={listing.complete ? undefined : listing.more}
            rest={changes.show}
          />
        ) : (
          <NoRows repository={repository} gitRef={gitRef} path={path} start={start} after={after} />
        )}
        {listing.error !== undefined && <Failure error={listing.error} retry={listing.reload} />}
        {!filtered && <Readme repository={repository} gitRef={gitRef} path={readmeIn(rows)} />}
      </DropArea>
    </main>
  );
}

interface NoRowsProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string;
  readonly start: string;
  readonly after: string;
}

function NoRows({ repository, gitRef, path, start, after }: NoRowsProps) {
  if (after) return <p>No name in this folder comes after “{visible(after)}”.</p>;
  if (start) return <p>No name in this folder begins with “{visible(start)}”.</p>;
  return <EmptyFolder repository={repository} gitRef={gitRef} path={path} />;
}

interface ReadmeProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string | undefined;
}

function Readme({ repository, gitRef, path }: ReadmeProps) {
  return path === undefined ? null : <FolderReadme repository={repository} gitRef={gitRef} path={path} />;
}

/** Why the rows are not in the order that was asked for. */
function OrderSentence({ loaded }: { readonly loaded: number }) {
  return (
    <p class="hint" role="status">
      {loaded < MOST_SORTED
        ? `Sorting: ${count(loaded)} entries are loaded…`
        : `This folder has more than ${count(MOST_SORTED)} entries: they stand in the order of their names.`}
    </p>
  );
}
