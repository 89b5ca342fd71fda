/** The merge of a comparison: its conflicts with both sides, the decisions for them, and the button. */
import { useMemo, useState } from "preact/hooks";
import { mergeRefs, previewMerge } from "../api/endpoints";
import { ApiError } from "../api/errors";
import type { Commit, ConflictDocument, RefDescription } from "../api/schema";
import type { Address } from "../model/addresses";
import { type ConflictRow, conflictRows, undecided } from "../model/conflicts";
import {
  type Decisions,
  decide,
  decisionFor,
  formatDecisions,
  parseDecisions,
  reachFurther,
  type Side,
  strategiesOf,
} from "../model/decisions";
import { counted, folders, nameIn, size } from "../model/text";
import { CommitId, Failure, Name, Waiting, When } from "../parts/basics";
import { go, Link, setQuery } from "../parts/navigation";
import { pageOf, usePages } from "../parts/pages";
import { type Column, type Row, Table } from "../parts/table";
import { ObjectChange } from "./change-object";
import { betweenRefs } from "./change-source";
import { isWriter } from "./session";

const PAGE = 1000;
const MOVED = 412;

interface MergeProps {
  readonly address: Address;
  readonly base: RefDescription;
  readonly source: RefDescription;
  /** The common base's commit ID. */
  readonly basis: string;
  /** Resolves both refs again. */
  readonly look: () => void;
}

/** Shows what a merge of `source` into `base` would meet, and merges exactly that. Decisions are in the address, as `take`. */
export function MergePanel({ address, base, source, basis, look }: MergeProps) {
  const { repository, query } = address;
  const decisions = useMemo(() => parseDecisions(query.take ?? ""), [query.take]);
  const [total, setTotal] = useState<number>();
  const key = basis === source.commit_id ? null : JSON.stringify([repository, source.commit_id, base.commit_id]);
  const conflicts = usePages<ConflictDocument>(key, async (after, signal) => {
    const query = { after, amount: PAGE, totals: !after, commits: true };
    const preview = await previewMerge(repository, source.commit_id, base.commit_id, query, signal);
    if (preview.conflicts !== undefined) setTotal(preview.conflicts);
    return pageOf(preview);
  });
  if (key === null)
    return (
      <p>
        {base.id} already has every commit of {source.id}: there is nothing to merge.
      </p>
    );
  if (conflicts.error !== undefined) return <Failure error={conflicts.error} retry={conflicts.more ?? conflicts.reload} />;
  if (!conflicts.loaded || total === undefined) return <Waiting>Looking for conflicts…</Waiting>;
  const open = undecided(conflicts.items, total, decisions);
  return (
    <section class="merge" aria-label="Merge">
      <h2 class={total ? "conflict" : ""}>{total ? `! ${counted(total, "conflict")}` : "No conflicts"}</h2>
      {total > 0 && (
        <Conflicts
          address={address}
          base={base}
          source={source}
          decisions={decisions}
          conflicts={conflicts.items}
          more={conflicts.more}
        />
      )}
      {!isWriter.value ? null : base.type === "branch" ? (
        <MergeForm
          address={address}
          base={base}
          source={source}
          decisions={decisions}
          paths={conflicts.items.map(({ path }) => path)}
          more={conflicts.more}
          open={open}
          look={look}
        />
      ) : (
        <p class="hint">{base.id} is no branch: choose one as the base to merge into it.</p>
      )}
    </section>
  );
}

interface ConflictsProps {
  readonly address: Address;
  readonly base: RefDescription;
  readonly source: RefDescription;
  readonly decisions: Decisions;
  readonly conflicts: readonly ConflictDocument[];
  readonly more: (() => void) | undefined;
}

function Conflicts({ address, base, source, decisions, conflicts, more }: ConflictsProps) {
  const { repository, query } = address;
  const rows = useMemo(() => conflictRows(conflicts), [conflicts]);
  const opened = rows.findIndex((row) => row.kind === "conflict" && row.path === query.conflict);
  const sides = useMemo(
    () => betweenRefs(repository, base.commit_id, source.commit_id),
    [repository, base.commit_id, source.commit_id],
  );
  const content = (
    <ObjectChange source={sides} path={query.conflict ?? ""} without={absentSide(rows[opened])} titles={[base.id, source.id]} />
  );
  const columns: readonly Column[] = [
    { title: "Object", kind: "name" },
    { title: "Common base", kind: "number" },
    { title: `Source ${source.id}`, kind: "number" },
    { title: `Destination ${base.id}`, kind: "number" },
    { title: "Take" },
  ];
  const row = (number: number): Row => {
    const item = rows[number] as ConflictRow;
    const choice = <Choice key="take" prefix={item.path} decisions={decisions} source={source.id} base={base.id} />;
    if (item.kind === "folder") {
      return {
        key: `folder ${item.path}`,
        cells: [
          <span key="name" class="entry">
            <Name text={item.path} />
            <span class="hint">{counted(item.number, "conflict")}; for all below:</span>
          </span>,
          "",
          "",
          "",
          choice,
        ],
      };
    }
    const { path, conflict } = item;
    const folder = folders(path).at(-1)?.[1] ?? "";
    const isOpen = query.conflict === path;
    return {
      key: `conflict ${path}`,
      cells: [
        <span key="name" class="entry" style={{ "--depth": folder ? 1 : 0 }}>
          <span class="sign conflict">!</span>
          <Link
            to={{ ...address, query: { ...query, conflict: isOpen ? "" : path, rows: "", keys: "" } }}
            aria-expanded={isOpen}
          >
            <Name text={nameIn(path, folder)} />
          </Link>
        </span>,
        <Version key="base" version={conflict.base} />,
        <Version key="source" version={conflict.source} repository={repository} commit={conflict.source_commit} />,
        <Version
          key="destination"
          version={conflict.destination}
          repository={repository}
          commit={conflict.destination_commit}
        />,
        choice,
      ],
    };
  };
  return (
    <>
      <p class="all-conflicts">
        For all conflicts: <Choice prefix="" decisions={decisions} source={source.id} base={base.id} />
      </p>
      <Table
        label="Conflicts"
        columns={columns}
        rows={rows.length}
        row={row}
        more={more}
        detail={opened < 0 ? undefined : { row: opened, content }}
      />
    </>
  );
}

/** Returns the side, of destination and source, that removed an object. */
function absentSide(row: ConflictRow | undefined): "left" | "right" | undefined {
  if (row?.kind !== "conflict") return undefined;
  return row.conflict.destination === null ? "left" : row.conflict.source === null ? "right" : undefined;
}

interface VersionProps {
  readonly version: ConflictDocument["base"];
  readonly repository?: string;
  /** The last commit that changed it, or removed it. */
  readonly commit?: Commit | null | undefined;
}

function Version({ version, repository = "", commit }: VersionProps) {
  const time = commit?.creation_date ?? version?.mtime;
  return (
    <span title={version?.checksum}>
      {version ? size(version.size_bytes) : <span class="hint">no object</span>}
      {commit?.committer && (
        <>
          {" "}
          · <Name text={commit.committer} most={16} />
        </>
      )}
      {time !== undefined && (
        <>
          {" "}
          · <When time={time} />
        </>
      )}
      {commit && (
        <>
          {" "}
          · <CommitId repository={repository} id={commit.id} />
        </>
      )}
    </span>
  );
}

/** Three radio buttons: one side, the other, or nothing decided for this prefix itself. */
function Choice({
  prefix,
  decisions,
  source,
  base,
}: {
  readonly prefix: string;
  readonly decisions: Decisions;
  readonly source: string;
  readonly base: string;
}) {
  const folder = prefix === "" || prefix.endsWith("/");
  const decision = decisionFor(decisions, prefix);
  const inherited = decision !== undefined && decision[1] !== prefix;
  const take = (side: Side | undefined) => setQuery({ take: formatDecisions(decide(decisions, prefix, side)) }, true);
  const radio = (side: Side | undefined, title: string) => (
    <label>
      <input type="radio" name={`take ${prefix}`} checked={decision?.[0] === side} onChange={() => take(side)} />
      {title}
    </label>
  );
  return (
    <fieldset class="take" title={inherited ? `by the decision for ${decision[1] || "all conflicts"}` : undefined}>
      <legend class="unseen">{prefix || "All conflicts"}</legend>
      {radio("source", `take ${source}`)}
      {radio("destination", `keep ${base}`)}
      {!inherited && radio(undefined, folder ? "one by one" : "undecided")}
    </fieldset>
  );
}

interface FormProps {
  readonly address: Address;
  readonly base: RefDescription;
  readonly source: RefDescription;
  readonly decisions: Decisions;
  /** The paths of the conflicts that are loaded; `more` loads others. */
  readonly paths: readonly string[];
  readonly more: (() => void) | undefined;
  readonly open: number;
  readonly look: () => void;
}

function MergeForm({ address, base, source, decisions, paths, more, open, look }: FormProps) {
  const { repository } = address;
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const message = String(new FormData(event.currentTarget as HTMLFormElement).get("message")).trim();
    setBusy(true);
    setError(undefined);
    mergeRefs(repository, source.id, base.id, {
      ...(message && { message }),
      strategies: strategiesOf(decisions, paths),
      expected_head: source.commit_id,
      expected_destination: base.commit_id,
    })
      .then(({ reference }) => go({ screen: "commit", repository, subject: reference, query: { ref: base.id } }), setError)
      .finally(() => setBusy(false));
  };
  const moved = error instanceof ApiError && error.status === MOVED;
  return (
    <form class="merge-form" onSubmit={submit}>
      <label>
        Message
        <input name="message" placeholder={`Merge '${source.id}' into '${base.id}'`} autocomplete="off" />
      </label>
      <button type="submit" class="primary" disabled={busy || open > 0}>
        {open ? `Decide ${counted(open, "conflict")}` : busy ? "Merging…" : `Merge into ${base.id}`}
      </button>
      {more && reachFurther(decisions) && (
        <p>
          Not all conflicts are loaded. What you decided for an object would also hold for those of them whose paths begin so.{" "}
          <button type="button" onClick={more}>
            Load more
          </button>
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
      {moved && (
        <p>
          {base.id} or {source.id} moved since you looked.{" "}
          <button type="button" onClick={look}>
            Look again
          </button>
        </p>
      )}
    </form>
  );
}
