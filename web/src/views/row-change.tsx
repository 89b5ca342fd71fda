/** The rows in which two versions of a table differ: read when they are few or when asked for, and compared by a worker. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { type ObjectPlace, openObject } from "../api/object-bytes";
import { rowsCommand, SIGNS } from "../model/changes";
import type { Pair } from "../model/row-codes";
import { FEW_BYTES, type RowFormat, tooManyBytes } from "../model/row-limits";
import {
  formatKeys,
  MOST_ROWS,
  parseKeys,
  type ShownCell,
  type ShownDifference,
  type ShownRow,
  type ShownText,
} from "../model/row-view";
import { count, counted, size, visible } from "../model/text";
import { Code, Failure, Name } from "../parts/basics";
import { address, setQuery } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { Assistant } from "../parts/workers";
import "./row-change.css";
import type { ComparedRows, OpenTables, RowRequest } from "./rows-worker";
import worker from "./rows-worker?worker&url";

/** How many rows of each kind are shown at first. */
const FEW_ROWS = 50;

/** A version of the table. */
export interface RowSide {
  readonly ref: string;
  readonly bytes: number;
  readonly checksum: string;
  /** What the version is called. */
  readonly title: string;
}

interface RowChangeProps {
  readonly repository: string;
  readonly path: string;
  readonly format: RowFormat;
  readonly sides: Pair<RowSide>;
  /** Whether both versions are in commits, so that the command line can compare them too. */
  readonly committed: boolean;
}

/** Compares by the keys that the address names as `keys`, or by proposed ones. With `rows=1` it starts however many bytes there are. */
export function RowChange(props: RowChangeProps) {
  const { sides } = props;
  const [cancelled, setCancelled] = useState(false);
  const bytes: Pair<number> = [sides[0].bytes, sides[1].bytes];
  const problem = tooManyBytes(bytes);
  if (problem) {
    return (
      <div class="row-change">
        <p class="hint">{problem}</p>
        <Command {...props} keys={parseKeys(address.value.query.keys ?? "") ?? []} />
      </div>
    );
  }
  const asked = address.value.query.rows === "1";
  if (cancelled || (!asked && bytes[0] + bytes[1] > FEW_BYTES)) {
    const start = () => {
      setCancelled(false);
      setQuery({ rows: "1" }, true);
    };
    return (
      <div class="row-change">
        <p>
          <button type="button" onClick={start}>
            Compare rows
          </button>{" "}
          <span class="hint">reads {size(bytes[0] + bytes[1])}</span>
        </p>
      </div>
    );
  }
  return <Compared {...props} cancel={() => setCancelled(true)} />;
}

interface CommandProps extends RowChangeProps {
  readonly keys: readonly string[];
}

/** The line that compares the same elsewhere. */
function Command({ repository, path, sides, committed, keys }: CommandProps) {
  if (!committed) return <p class="hint">The command line compares rows of commits: commit these changes to use it.</p>;
  return <Code text={rowsCommand(repository, sides[0].ref, sides[1].ref, path, keys)} />;
}

/** How far reading is: bytes of both versions first, then the share of the columns. */
interface Progress {
  readonly bytes: number;
  readonly columns: number;
}

function Compared(props: RowChangeProps & { readonly cancel: () => void }) {
  const { repository, path, sides, format, cancel } = props;
  const [progress, setProgress] = useState<Progress>({ bytes: 0, columns: 0 });
  const versions = JSON.stringify([repository, path, ...sides.map(({ ref, checksum }) => [ref, checksum])]);
  const open = useResource(versions, async (signal) => {
    setProgress({ bytes: 0, columns: 0 });
    const read = [0, 0];
    const files = await Promise.all(
      sides.map(({ ref }, side) =>
        readWhole({ repository, ref, path }, signal, (bytes) => {
          read[side] = bytes;
          setProgress({ bytes: (read[0] ?? 0) + (read[1] ?? 0), columns: 0 });
        }),
      ),
    );
    signal.throwIfAborted();
    const assistant = new Assistant(worker);
    signal.addEventListener("abort", () => assistant.end());
    const titles: Pair<string> = [sides[0].title, sides[1].title];
    const request: RowRequest = { kind: "open", format, path, titles, files: files as [ArrayBuffer, ArrayBuffer] };
    const tables = await assistant.ask<OpenTables>(request, files, (columns) =>
      setProgress((before) => ({ ...before, columns })),
    );
    return { assistant, tables };
  });
  const tables = open.value?.tables;
  const named = parseKeys(address.value.query.keys ?? "");
  const keys = named ?? tables?.proposal ?? [];
  const compared = useResource(tables ? JSON.stringify([versions, keys]) : null, () => {
    const request: RowRequest = { kind: "compare", keys };
    return open.value?.assistant.ask<ComparedRows>(request) ?? Promise.reject(new Error("The tables are not read."));
  });
  const error = open.error ?? compared.error;
  if (error !== undefined) {
    return (
      <div class="row-change">
        <Failure error={error} retry={open.reload} />
        <Command {...props} keys={keys} />
      </div>
    );
  }
  if (!tables) return <Reading progress={progress} all={sides[0].bytes + sides[1].bytes} cancel={cancel} />;
  return (
    <section class="row-change">
      <Summary tables={tables} difference={compared.value} />
      <Keys tables={tables} keys={keys} proposed={named === undefined} />
      <ColumnChanges tables={tables} />
      {compared.value && "problem" in compared.value && (
        <p class="failure" role="alert">
          {visible(compared.value.problem)}
        </p>
      )}
      {compared.value && "rows" in compared.value && <Rows difference={compared.value} />}
      <details>
        <summary>The same on the command line</summary>
        <Command {...props} keys={keys} />
      </details>
    </section>
  );
}

async function readWhole(place: ObjectPlace, signal: AbortSignal, progress: (read: number) => void): Promise<ArrayBuffer> {
  const object = await openObject(place, signal);
  return object.whole(progress);
}

/** A line that appears when reading takes longer than a moment. */
function Reading({
  progress,
  all,
  cancel,
}: {
  readonly progress: Progress;
  readonly all: number;
  readonly cancel: () => void;
}) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 400);
    return () => clearTimeout(timer);
  }, []);
  const reading = progress.bytes < all;
  return (
    <div class="row-change" aria-busy="true">
      {late && (
        <p class="reading">
          <progress
            max={1}
            value={reading ? progress.bytes / all : progress.columns || undefined}
            aria-label="Comparing rows"
          />
          {reading ? `Read ${size(progress.bytes)} of ${size(all)}` : "Comparing rows…"}
          <button type="button" class="quiet" onClick={cancel}>
            Cancel
          </button>
        </p>
      )}
    </div>
  );
}

function Summary({ tables, difference }: { readonly tables: OpenTables; readonly difference: ComparedRows | undefined }) {
  const [before, after] = tables.rows;
  const counts = difference && "counts" in difference ? difference.counts : undefined;
  const same = counts && !counts.removed && !counts.changed && !counts.added;
  return (
    <p class="totals" role="status">
      {same && <span>No row differs.</span>}
      {counts &&
        (["removed", "changed", "added"] as const).map((kind) => (
          <span key={kind} class={counts[kind] ? kind : "hint"}>
            {SIGNS[kind]}
            {counted(counts[kind], "row")} {kind}
          </span>
        ))}
      <span class="hint">{before === after ? counted(after, "row") : `${count(before)} → ${counted(after, "row")}`}</span>
    </p>
  );
}

/** The columns that tell rows apart, and boxes to choose others. */
function Keys({
  tables,
  keys,
  proposed,
}: {
  readonly tables: OpenTables;
  readonly keys: readonly string[];
  readonly proposed: boolean;
}) {
  const isKey = (name: string) => keys.some((key) => key.toLowerCase() === name.toLowerCase());
  const choices = tables.columns.filter(({ types }) => types[0] !== undefined && types[1] !== undefined);
  const choose = (name: string, chosen: boolean) => {
    const next = chosen ? [...keys, name] : keys.filter((key) => key.toLowerCase() !== name.toLowerCase());
    setQuery({ keys: formatKeys(next) }, true);
  };
  return (
    <details class="keys">
      <summary>
        Keys: {keys.length ? keys.map((key) => <Name key={key} text={key} most={40} />) : "none, whole rows are compared"}
        {proposed && <span class="hint"> proposed</span>}
      </summary>
      <fieldset>
        <legend>Rows with equal values here are one row</legend>
        {choices.map(({ name }) => (
          <label key={name}>
            <input type="checkbox" checked={isKey(name)} onChange={(event) => choose(name, event.currentTarget.checked)} />
            <Name text={name} most={40} />
          </label>
        ))}
      </fieldset>
      {!proposed && (
        <button type="button" onClick={() => setQuery({ keys: "" }, true)}>
          Propose keys
        </button>
      )}
    </details>
  );
}

/** Columns that were added or removed, or have another type. */
function ColumnChanges({ tables }: { readonly tables: OpenTables }) {
  const changes = tables.columns.filter(({ types }) => types[0] !== types[1]);
  if (!changes.length) return null;
  return (
    <ul class="column-changes">
      {changes.map(({ name, types: [before, after] }) => {
        const kind = before === undefined ? "added" : after === undefined ? "removed" : "changed";
        return (
          <li key={name}>
            <span class={`sign ${kind}`}>{SIGNS[kind]}</span>
            column <Name text={name} most={60} />{" "}
            <code>{[before, after].filter((type) => type !== undefined).join(" → ")}</code>
            <span class="unseen"> {kind}</span>
          </li>
        );
      })}
    </ul>
  );
}

function Rows({ difference }: { readonly difference: ShownDifference }) {
  const { counts, columns, hidden } = difference;
  const [most, setMost] = useState(FEW_ROWS);
  const rows = useMemo(() => firstOfEach(difference.rows, most), [difference.rows, most]);
  const heads = useMemo(
    (): Column[] => [
      { title: <span class="unseen">Difference</span> },
      ...columns.map(
        ({ name, key, changes }): Column => ({
          title: (
            <>
              <Name text={name} most={40} />
              {key && <span class="hint"> key</span>}
              {changes > 0 && <span class="changed"> ~{count(changes)}</span>}
            </>
          ),
        }),
      ),
    ],
    [columns],
  );
  if (!rows.length) return null;
  const all = counts.removed + counts.changed + counts.added;
  const row = (number: number): Row => {
    const { kind, cells } = rows[number] as ShownRow;
    return {
      key: String(number),
      className: kind,
      cells: [
        <span key="sign" class={`sign ${kind}`} title={kind}>
          {SIGNS[kind]}
          <span class="unseen">{kind}</span>
        </span>,
        ...cells.map((cell, place) => <Cell key={columns[place]?.name} cell={cell} />),
      ],
    };
  };
  return (
    <>
      {hidden > 0 && <p class="hint">{counted(hidden, "further column")} not shown.</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it. */}
      <div class="scrolls" tabIndex={0}>
        <Table label="Rows that differ" columns={heads} rows={rows.length} row={row} />
      </div>
      {all > rows.length && (
        <p class="hint">
          {count(rows.length)} of {counted(all, "row")} shown, the first {count(most)} of each kind.{" "}
          {difference.rows.length > rows.length && (
            <button type="button" onClick={() => setMost(MOST_ROWS)}>
              Show {count(MOST_ROWS)} of each kind
            </button>
          )}
        </p>
      )}
    </>
  );
}

/** Returns the first rows of each kind. */
function firstOfEach(rows: readonly ShownRow[], most: number): readonly ShownRow[] {
  const numbers = { removed: 0, changed: 0, added: 0 };
  return rows.filter(({ kind }) => {
    numbers[kind] += 1;
    return numbers[kind] <= most;
  });
}

function Cell({ cell: { text, before } }: { readonly cell: ShownCell }) {
  if (before === undefined) return <Value text={text} />;
  return (
    <span class="changed-cell">
      <del>
        <Value text={before} />
      </del>
      <span aria-hidden="true"> → </span>
      <ins>
        <Value text={text} />
      </ins>
    </span>
  );
}

function Value({ text }: { readonly text: ShownText }) {
  if (text === null) return <span class="hint">null</span>;
  if (text === "") return <span class="hint">""</span>;
  return <bdi title={text.length > 40 ? visible(text) : undefined}>{visible(text)}</bdi>;
}
