/** A change: its totals, and a tree of folders and objects, each opened by a request. Commits, comparisons and uncommitted changes share it. */
import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort, sentenceOf } from "../api/errors";
import type { Diff } from "../api/schema";
import type { Address } from "../model/addresses";
import {
  changedObjects,
  foldersTo,
  growth,
  type Kind,
  type Level,
  SIGNS,
  sizesOf,
  type TreeRow,
  treeRows,
  UNLOADED,
  withPage,
} from "../model/changes";
import { size, sizeChange } from "../model/text";
import { Failure, Name, Waiting } from "../parts/basics";
import { Icon } from "../parts/icons";
import { Link } from "../parts/navigation";
import { type Column, type Row, Table } from "../parts/table";
import { ObjectChange } from "./change-object";
import { PrefixField } from "./change-prefix";
import type { ChangeSource } from "./change-source";
import { Bar, Marks, TotalsLine } from "./change-totals";
import "./change.css";

const COLUMNS: readonly Column[] = [
  { title: "Name", kind: "name" },
  { title: "Objects", kind: "number" },
  { title: "Bytes", kind: "number" },
  { title: <span class="unseen">Share</span> },
];

interface ChangeProps {
  readonly source: ChangeSource;
  readonly address: Address;
  /** Returns what can be done with a folder or an object; stands at the end of its row. */
  readonly action?: ((row: TreeRow) => ComponentChildren) | undefined;
}

/** Draws a change. The address's `prefix` narrows it, and `file` is the object that is opened. */
export function Change({ source, address, action }: ChangeProps) {
  const { prefix = "", file = "" } = address.query;
  const tree = useTree(source, prefix, file);
  const top = tree.levels.get(prefix) ?? UNLOADED;
  const rows = useMemo(() => treeRows(tree.levels, tree.open, prefix), [tree.levels, tree.open, prefix]);
  const opened = rows.findIndex((row) => row.kind === "object" && row.path === file);
  const settled = [prefix, ...foldersTo(file, prefix)].every((path) => tree.levels.get(path)?.pending === false);
  const content = file && <ObjectChange source={source} path={file} without={absentSide(rows[opened])} />;
  const cells = (row: TreeRow): Row => ({
    key: `${row.kind} ${row.path}`,
    cells: [...cellsOf(row, address, tree), ...(action ? [action(row)] : [])],
  });
  const columns = action ? [...COLUMNS, { title: <span class="unseen">Actions</span> }] : COLUMNS;
  return (
    <section class="change" aria-label="Changes">
      {top.sums && <TotalsLine totals={top.sums.total} />}
      {!top.sums && top.sumsError === undefined && <Waiting>Summing up the change…</Waiting>}
      {top.sumsError !== undefined && <Failure error={top.sumsError} />}
      {(prefix || (top.sums && changedObjects(top.sums.total) > 1)) && <PrefixField prefix={prefix} />}
      {top.error !== undefined && <Failure error={top.error} retry={() => tree.load(prefix)} />}
      {file && opened < 0 && settled && (
        <section class="detail" aria-label={file}>
          <h2>
            <Name text={file} />
          </h2>
          {content}
        </section>
      )}
      {top.entries.length > 0 && (
        <Table
          label="Changed folders and objects"
          columns={columns}
          rows={rows.length}
          row={(number) => cells(rows[number] as TreeRow)}
          detail={opened < 0 ? undefined : { row: opened, content }}
        />
      )}
    </section>
  );
}

/** Returns the side on which an opened object is known not to be. */
function absentSide(row: TreeRow | undefined): "left" | "right" | undefined {
  if (row?.kind !== "object") return undefined;
  return row.entry.type === "added" ? "left" : row.entry.type === "removed" ? "right" : undefined;
}

interface Tree {
  readonly levels: ReadonlyMap<string, Level>;
  readonly open: ReadonlySet<string>;
  readonly toggle: (path: string) => void;
  readonly load: (path: string) => void;
}

function useTree(source: ChangeSource, prefix: string, file: string): Tree {
  const [levels, setLevels] = useState<ReadonlyMap<string, Level>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const current = useRef({ levels, abort: new AbortController(), file });
  current.current = { ...current.current, levels, file };

  const load = useCallback(
    (path: string) => {
      const { signal } = current.current.abort;
      const set = (change: (level: Level) => Partial<Level>) => {
        if (signal.aborted) return;
        setLevels((before) => {
          const level = before.get(path) ?? UNLOADED;
          return new Map(before).set(path, { ...level, ...change(level) });
        });
      };
      const failed = (name: "error" | "sumsError") => (error: unknown) => {
        if (!isAbort(error)) set(() => ({ [name]: error, ...(name === "error" && { pending: false }) }));
      };
      const level = current.current.levels.get(path);
      set(() => ({ pending: true, error: undefined }));
      source.list(path, level?.next ?? "", signal).then(({ items, next }) => {
        set((before) => withPage(before, items, next));
        const [only] = items;
        if (!level && items.length === 1 && only?.path_type === "common_prefix" && next === undefined) {
          setOpen((before) => new Set(before).add(only.path));
          load(only.path);
        }
      }, failed("error"));
      if (level?.sums) return;
      source.sum(path, signal).then(({ total, results }) => {
        set(() => ({ sums: { total, folders: new Map(results.map((part) => [part.path, part.totals])) } }));
      }, failed("sumsError"));
    },
    [source],
  );

  useEffect(() => {
    const abort = new AbortController();
    const shown = foldersTo(current.current.file, prefix);
    current.current = { ...current.current, levels: new Map(), abort };
    setLevels(new Map());
    setOpen(new Set(shown));
    for (const path of [prefix, ...shown]) load(path);
    return () => abort.abort();
  }, [load, prefix]);

  const toggle = useCallback(
    (path: string) => {
      if (!current.current.levels.has(path)) load(path);
      setOpen((before) => {
        const after = new Set(before);
        if (!after.delete(path)) after.add(path);
        return after;
      });
    },
    [load],
  );
  return { levels, open, toggle, load };
}

function cellsOf(row: TreeRow, address: Address, tree: Tree): readonly ComponentChildren[] {
  const indent = { "--depth": row.depth };
  switch (row.kind) {
    case "folder":
      return folderCells(row, tree, indent);
    case "object":
      return objectCells(row, address, indent);
    case "more":
      return [
        <button key="name" type="button" class="entry quiet" style={indent} onClick={() => tree.load(row.path)}>
          Show more
        </button>,
      ];
    case "waiting":
      return [
        <span key="name" class="entry hint" style={indent}>
          Loading…
        </span>,
      ];
    case "failure":
      return [
        <span key="name" class="entry removed" style={indent}>
          {sentenceOf(row.error)}
          <button type="button" class="quiet" onClick={() => tree.load(row.path)}>
            Try again
          </button>
        </span>,
      ];
  }
}

type Indent = Readonly<Record<string, number>>;

function folderCells(row: TreeRow & { kind: "folder" }, tree: Tree, indent: Indent): readonly ComponentChildren[] {
  const { sums, sumsError } = row.level;
  const totals = sums?.folders.get(row.path);
  const most = sums ? Math.max(...[...sums.folders.values()].map(changedObjects)) : 0;
  return [
    <button
      key="name"
      type="button"
      class="entry quiet"
      aria-expanded={row.open}
      style={indent}
      onClick={() => tree.toggle(row.path)}
    >
      <Icon name={row.open ? "down" : "chevron"} />
      <Name text={row.name} />
    </button>,
    totals ? <Marks key="objects" totals={totals} /> : sumsError !== undefined && <span title={sentenceOf(sumsError)}>–</span>,
    totals && sizeChange(growth(totals)),
    totals && <Bar key="bar" totals={totals} most={most} />,
  ];
}

function objectCells(row: TreeRow & { kind: "object" }, address: Address, indent: Indent): readonly ComponentChildren[] {
  const opened = address.query.file === row.path;
  const kind = row.entry.type as Kind;
  return [
    <span key="name" class="entry" style={indent}>
      <span class={`sign ${kind}`} title={kind}>
        {SIGNS[kind]}
      </span>
      <Link
        to={{ ...address, query: { ...address.query, file: opened ? "" : row.path, rows: "", keys: "" } }}
        aria-expanded={opened}
      >
        <Name text={row.name} />
      </Link>
    </span>,
    "",
    <Sizes key="bytes" entry={row.entry} />,
    "",
  ];
}

function Sizes({ entry }: { readonly entry: Diff }) {
  const [before, after] = sizesOf(entry);
  if (before === undefined || after === undefined) return <>{size(after ?? before ?? 0)}</>;
  return (
    <>
      {size(before)} → {size(after)}
    </>
  );
}
