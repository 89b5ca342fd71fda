/** The log of a ref, as a graph. */
import { type Signal, signal } from "@preact/signals";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { getUsage, listCommits, summarizeDiff } from "../api/endpoints";
import { isAbort, sentenceOf } from "../api/errors";
import type { LoggedCommit, Totals } from "../api/schema";
import type { Address } from "../model/addresses";
import { growth, NO_CHANGE } from "../model/changes";
import { Graph } from "../model/graph";
import { isDay, sizeChange, startOf } from "../model/text";
import { CommitId, Copy, Failure, Name, Subject, Waiting, When } from "../parts/basics";
import { useKeys } from "../parts/keys";
import { go, Link, setQuery, type Target, useTitle } from "../parts/navigation";
import { pageOf, usePages } from "../parts/pages";
import { utc } from "../parts/settings";
import { type Column, type Row, Table } from "../parts/table";
import { Marks } from "./change-totals";
import { GraphCell } from "./history-graph";
import { isWriter } from "./session";
import { useShownRef } from "./shown-ref";
import "./history.css";

const FIRST_PAGE = 200;
const FURTHER_PAGE = 500;
const MOST_REFS = 3;
const MOST_REVERTED = 50;
const FIELDS = "id,parents,message,committer,creation_date,refs";
const FILTERS = ["path", "author", "text", "since"] as const;

/** A commit of the log, with the members that are asked for. */
type Logged = Required<Pick<LoggedCommit, "id" | "parents" | "message" | "committer" | "creation_date">> & LoggedCommit;

/** The commits that the address's ref reaches. */
export function History({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const { ref, error, reload } = useShownRef();
  useTitle("History", ref ?? "", repository);
  const filters = FILTERS.map((name) => query[name] ?? "");
  const filtered = filters.some(Boolean);
  const log = usePages<Logged>(
    ref === null ? null : JSON.stringify([repository, ref, query.after ?? "", ...filters, utc.value]),
    async (after, signal) => {
      const [path = "", author = "", text = "", since = ""] = filters;
      const page = await listCommits(
        repository,
        ref ?? "",
        {
          ...{ fields: FIELDS, amount: after ? FURTHER_PAGE : FIRST_PAGE, after: after || query.after },
          ...{ author, text, since: startOf(since, utc.value) },
          ...(path && { prefixes: [path.endsWith("/") ? path : `${path}/`], objects: path.endsWith("/") ? [] : [path] }),
        },
        signal,
      );
      return pageOf(page as { results: Logged[]; pagination: typeof page.pagination });
    },
  );
  const graph = useGraph(log.items, !filtered && query.graph !== "0");
  const [selected, setSelected] = useState<readonly Logged[]>([]);
  const changes = useMemo(() => new Changes(repository), [repository]);
  useEffect(() => () => changes.end(), [changes]);
  const rest = useCallback((first: number, end: number) => changes.load(log.items.slice(first, end)), [changes, log.items]);
  const failure = error ?? log.error;
  const all = log.items.length > 0 && selected.length === log.items.length;
  const selectAll = (
    <input
      type="checkbox"
      aria-label="Select all that are loaded"
      checked={all}
      onChange={() => setSelected(all ? [] : log.items)}
    />
  );
  const columns: readonly Column[] = [
    { title: selectAll, kind: "mark" },
    ...(graph ? [{ title: <span class="unseen">Graph</span>, kind: "mark" } as const] : []),
    { title: "Message", kind: "name" },
    { title: "Committer" },
    { title: "When" },
    { title: "Objects", kind: "number" },
    { title: "Bytes", kind: "number" },
    { title: "Commit" },
  ];
  const select = (commit: Logged) =>
    setSelected((before) => (before.includes(commit) ? before.filter((other) => other !== commit) : [...before, commit]));
  const row = (number: number): Row => {
    const commit = log.items[number] as Logged;
    const graphRow = graph?.rows[number];
    return {
      key: commit.id,
      cells: [
        <input
          key="select"
          type="checkbox"
          aria-label={`Select ${commit.id.slice(0, 7)}`}
          checked={selected.includes(commit)}
          onChange={() => select(commit)}
        />,
        ...(graph ? [graphRow && <GraphCell key="graph" row={graphRow} lanes={graph.lanes} />] : []),
        <Message key="message" repository={repository} gitRef={ref ?? ""} commit={commit} />,
        commit.committer && <Name key="committer" text={commit.committer} most={24} />,
        <When key="when" time={commit.creation_date} />,
        <ChangedObjects key="objects" change={changes.of(commit.id)} />,
        <ChangedBytes key="bytes" change={changes.of(commit.id)} />,
        <span key="id" class="id-cell">
          <CommitId repository={repository} id={commit.id} />
          <Copy text={commit.id} />
        </span>,
      ],
    };
  };
  return (
    <main class="history">
      <div class="heading">
        <h1>History</h1>
        <Filters query={query} />
        <Selected repository={repository} selected={selected} order={log.items} prefix={query.path ?? ""} />
      </div>
      {query.after && (
        <p>
          Older than {query.after.slice(0, 7)}.{" "}
          <Link to={{ ...address, query: { ...query, after: "" } }}>Show the newest commits</Link>
        </p>
      )}
      {failure !== undefined && (
        <Failure error={failure} retry={error !== undefined ? reload : log.items.length ? log.more : log.reload} />
      )}
      {!log.loaded && log.pending && <Waiting>Loading the history…</Waiting>}
      {log.loaded && !log.items.length && !log.more && (
        <p>{filtered ? "No commit matches." : `Nothing is committed on ${ref} yet.`}</p>
      )}
      {(log.items.length > 0 || log.more) && log.loaded && (
        <Table
          label={`Commits of ${ref}`}
          columns={columns}
          rows={log.items.length}
          row={row}
          more={log.error === undefined ? log.more : undefined}
          rest={rest}
        />
      )}
      {log.items.length === 0 && log.loaded && log.more && <Waiting>Searching older commits…</Waiting>}
    </main>
  );
}

/** Returns the graph of a log that grows; `null` where none is drawn. */
function useGraph(commits: readonly Logged[], drawn: boolean): Graph | null {
  const kept = useRef<{ readonly first: Logged | undefined; readonly graph: Graph }>(undefined);
  return useMemo(() => {
    if (!drawn) return null;
    if (kept.current?.first !== commits[0] || !kept.current) kept.current = { first: commits[0], graph: new Graph() };
    const { graph } = kept.current;
    graph.append(commits.slice(graph.rows.length));
    return graph;
  }, [commits, drawn]);
}

type Change = Totals | { readonly failure: string };

/** The changes of the commits of a log: a signal for each, so that what arrives redraws its own cells only. */
class Changes {
  private readonly signals = new Map<string, Signal<Change | undefined>>();
  private running = new AbortController();

  constructor(private readonly repository: string) {}

  /** Returns the change of a commit, which is empty until `load` has got it. */
  of(id: string): Signal<Change | undefined> {
    const change = this.signals.get(id) ?? signal<Change | undefined>(undefined);
    this.signals.set(id, change);
    return change;
  }

  /** Loads the changes of the visible commits; what was asked for others is given up. */
  load(commits: readonly Logged[]): void {
    this.end();
    this.running = new AbortController();
    for (const commit of commits) {
      const change = this.of(commit.id);
      if (change.value) continue;
      changeOf(this.repository, commit, this.running.signal).then(
        (totals) => {
          change.value = totals;
        },
        (error: unknown) => {
          if (!isAbort(error)) change.value = { failure: sentenceOf(error) };
        },
      );
    }
  }

  end(): void {
    this.running.abort();
  }
}

/** Returns what a commit changed: against its first parent, or, for the first of all, everything in it. */
async function changeOf(repository: string, { id, parents }: Logged, signal: AbortSignal): Promise<Totals> {
  const [parent] = parents;
  if (parent) return (await summarizeDiff(repository, parent, id, { type: "two_dot" }, signal)).total;
  const { objects, size_bytes } = await getUsage(repository, id, {}, signal);
  return { ...NO_CHANGE, added: objects, added_bytes: size_bytes };
}

function ChangedObjects({ change }: { readonly change: Signal<Change | undefined> }) {
  const { value } = change;
  if (!value) return null;
  return "failure" in value ? <span title={value.failure}>–</span> : <Marks totals={value} />;
}

function ChangedBytes({ change }: { readonly change: Signal<Change | undefined> }) {
  const { value } = change;
  return value && !("failure" in value) ? sizeChange(growth(value)) : null;
}

interface MessageProps {
  readonly repository: string;
  /** The ref of the log, which the commit's page goes on with. */
  readonly gitRef: string;
  readonly commit: Logged;
}

function Message({ repository, gitRef, commit }: MessageProps) {
  return (
    <div class="message">
      <Link to={{ screen: "commit", repository, subject: commit.id, query: { ref: gitRef } }}>
        <Subject message={commit.message} />
      </Link>
      {commit.refs?.slice(0, MOST_REFS).map(({ type, id }) => (
        <Link
          key={`${type} ${id}`}
          to={{ screen: "objects", repository, query: { ref: id } }}
          class={`ref ${type}`}
          title={type}
        >
          {id}
        </Link>
      ))}
      {commit.refs && commit.refs.length > MOST_REFS && (
        <span class="hint" title={commit.refs.map(({ id }) => id).join(", ")}>
          +{commit.refs.length - MOST_REFS}
        </span>
      )}
      <span class="second-line">
        {commit.committer && <Name text={commit.committer} most={24} />} <When time={commit.creation_date} />
      </span>
    </div>
  );
}

function Filters({ query }: { readonly query: Address["query"] }) {
  const input = (name: (typeof FILTERS)[number], title: string) => ({
    "aria-label": title,
    placeholder: title,
    defaultValue: query[name] ?? "", // what is being typed stays when a page of the log comes
    onChange: (event: { readonly currentTarget: HTMLInputElement }) =>
      setQuery({ [name]: event.currentTarget.value, after: "" }),
  });
  return (
    <search class="filters" aria-label="Narrow the history">
      <input type="search" key={`path ${query.path}`} {...input("path", "Object or folder")} />
      <input type="search" key={`author ${query.author}`} {...input("author", "Committer")} />
      <input type="search" key={`text ${query.text}`} {...input("text", "Text of the message")} />
      {/* An address may also have a time, or how long ago it was. */}
      {!query.since || isDay(query.since) ? (
        <input type="date" title="Since" key={`since ${query.since}`} {...input("since", "Since")} />
      ) : (
        <input type="search" title="Since" key={`since ${query.since}`} {...input("since", "Since")} />
      )}
    </search>
  );
}

/** What can be done with the selected commits: two are compared, the older one first; any number is reverted, the newest first. */
function Selected({
  repository,
  selected,
  order,
  prefix,
}: {
  readonly repository: string;
  readonly selected: readonly Logged[];
  readonly order: readonly Logged[];
  /** The beginning of the paths that the log is about. */
  readonly prefix: string;
}) {
  const { ref, description } = useShownRef();
  const newestFirst = [...selected].sort((left, right) => order.indexOf(left) - order.indexOf(right));
  const [newer, older, third] = newestFirst;
  const target: Target | undefined =
    older && newer && !third
      ? { screen: "compare", repository, query: { ref: older.id, compare: newer.id, mode: "two", prefix } }
      : undefined;
  useKeys({ x: selectRow, ...(target && { c: () => go(target) }) });
  if (!newer) return <span class="hint selected-commits">Select commits to compare or revert them</span>;
  const commits = newestFirst.map(({ id }) => id).join(",");
  return (
    <span class="selected-commits">
      {target && <Link to={target}>Compare 2 selected</Link>}
      {ref !== null &&
        description?.type === "branch" &&
        isWriter.value &&
        (selected.length <= MOST_REVERTED ? (
          <Link to={{ screen: "revert", repository, subject: ref, query: { commits } }}>Revert {selected.length} selected</Link>
        ) : (
          <span class="hint">Select at most {MOST_REVERTED} to revert them</span>
        ))}
    </span>
  );
}

/** Selects the commit of the row that has the focus, or takes that back. */
function selectRow(): void {
  document.activeElement?.closest("tr")?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
}
