/** A Parquet file: its rows under the footer's statistics, and its schema. Loaded with the first such file. */
import type { FileMetaData } from "hyparquet";
import { useEffect, useState } from "preact/hooks";
import type { ObjectBytes } from "../api/object-bytes";
import { describeParquet, type ParquetColumn, type ParquetFile, type TopColumn, topColumns } from "../model/parquet-file";
import { nullsText, spanText } from "../model/parquet-statistics";
import { nestedText, valueText } from "../model/parquet-values";
import { count, counted, shortened, size, visible } from "../model/text";
import { Failure, Name, Waiting } from "../parts/basics";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { type ColumnValues, readFooter, readRows } from "./parquet-reader";
import { noteRows } from "./row-counts";

const ROWS = 200;
const COLUMNS = 50;
const MOST_CHARACTERS = 200;
const LONGEST_SPAN = 52;

interface ParquetProps {
  readonly object: ObjectBytes;
  readonly view: "rows" | "schema";
  /** Called with the words for the line below the path, once the footer was read. */
  readonly summarize: (summary: string) => void;
}

/** Reads the footer, and shows the rows or the schema. */
export function Parquet({ object, view, summarize }: ParquetProps) {
  const footer = useResource(JSON.stringify(object.place), async () => {
    const metadata = await readFooter(object);
    const file = describeParquet(metadata);
    noteRows({ ...object.place, checksum: object.stats.checksum }, file.rows);
    return { metadata, file };
  });
  const file = footer.value?.file;
  useEffect(() => {
    if (file) summarize(summaryOf(file));
  }, [file, summarize]);
  if (footer.error !== undefined) return <Failure error={footer.error} retry={footer.reload} />;
  if (!footer.value) return <Waiting>Reading the footer…</Waiting>;
  const { metadata } = footer.value;
  if (view === "schema") return <Schema file={footer.value.file} />;
  return <Rows object={object} metadata={metadata} file={footer.value.file} />;
}

function Schema({ file }: { readonly file: ParquetFile }) {
  const screen = useResource("schema", () => import("./schema"));
  if (screen.error !== undefined) return <Failure error={screen.error} retry={screen.reload} />;
  return screen.value ? <screen.value.Schema file={file} /> : <Waiting>Loading…</Waiting>;
}

/** Returns whether a column's values are numbers, which stand at the right. */
function isNumeric({ elements }: TopColumn): boolean {
  const [element, child] = elements;
  if (!element || child) return false;
  const { type, logical_type: logical, converted_type: converted } = element;
  if (logical?.type === "DECIMAL" || converted === "DECIMAL" || type === "FLOAT" || type === "DOUBLE") return true;
  return (type === "INT32" || type === "INT64") && !/DATE|TIME/.test(`${logical?.type} ${converted}`);
}

function summaryOf({ rows, names, codecs }: ParquetFile): string {
  return [counted(rows, "row"), counted(names.length, "column"), ...codecs.map((codec) => codec.toLowerCase())].join(" · ");
}

interface RowsProps {
  readonly object: ObjectBytes;
  readonly metadata: FileMetaData;
  readonly file: ParquetFile;
}

function Rows({ object, metadata, file }: RowsProps) {
  const [start, setStart] = useState(0);
  const [firstColumn, setFirstColumn] = useState(0);
  const end = Math.min(start + ROWS, file.rows);
  const columns = topColumns(metadata.schema).slice(firstColumn, firstColumn + COLUMNS);
  const read = useResource(JSON.stringify([object.place, start, firstColumn]), () =>
    readRows(object, metadata, columns, [start, end]),
  );
  const failures = new Set(read.value?.map((column) => column.failure));
  const sameFailure = failures.size === 1 ? [...failures].join("") : "";
  const heads: Column[] = [
    { title: "Row", kind: "number" },
    ...columns.map(
      (column, index): Column => ({
        ...(isNumeric(column) && { kind: "number" }),
        title: (
          <Head
            name={column.name}
            column={column.elements.length === 1 ? file.columns[column.firstLeaf] : undefined}
            failure={sameFailure ? "" : (read.value?.[index]?.failure ?? "")}
          />
        ),
      }),
    ),
  ];
  const row = (number: number): Row => ({
    key: String(start + number),
    cells: [
      count(start + number + 1),
      ...columns.map((column, index) => (
        <Cell
          key={column.name}
          of={read.value?.[index]}
          number={number}
          show={(value) => {
            const [element, ...children] = column.elements;
            return children.length || !element ? nestedText(value, column.elements) : valueText(value, element);
          }}
        />
      )),
    ],
  });
  return (
    <>
      {file.names.length > COLUMNS && <ColumnChoice file={file} first={firstColumn} choose={setFirstColumn} />}
      {read.error !== undefined && <Failure error={read.error} retry={read.reload} />}
      {read.error === undefined && !read.value && <Waiting>Reading rows…</Waiting>}
      {file.rows === 0 && <p>This file has no rows.</p>}
      <div class="rows">
        <Table label="Rows" columns={heads} rows={read.value && !sameFailure ? end - start : 0} row={row} />
      </div>
      {sameFailure && <p class="failure">{sameFailure.replace(/^This column/, "No column")}.</p>}
      {file.rows > 0 && (
        <RowChoice start={start} end={end} rows={file.rows} choose={setStart} key={start}>
          {read.value && `read ${size(object.read)} of ${size(object.byteLength)}`}
        </RowChoice>
      )}
    </>
  );
}

interface HeadProps {
  readonly name: string;
  /** Statistics; those of a nested column stand in the schema, by its parts. */
  readonly column: ParquetColumn | undefined;
  readonly failure: string;
}

function Head({ name, column, failure }: HeadProps) {
  const span = column ? spanText(column) : "";
  return (
    <>
      <span class="column-name">
        <Name text={name} most={40} /> <span class="hint">{column?.type ?? "nested"}</span>
      </span>
      <span class="statistic" title={span.length > LONGEST_SPAN ? span : undefined}>
        {span || "–"}
      </span>
      <span class="statistic">{column ? nullsText(column) : "–"}</span>
      {failure && (
        <span class="failed" title={failure}>
          not read: {shortened(failure.replace(/^This column cannot be read: /, ""), 60)}
        </span>
      )}
    </>
  );
}

interface CellProps {
  readonly of: ColumnValues | undefined;
  readonly number: number;
  readonly show: (value: unknown) => string | undefined;
}

function Cell({ of, number, show }: CellProps) {
  if (!of) return null;
  if (of.failure) return <span title={of.failure}>–</span>;
  const text = show(of.values[number]);
  if (text === undefined) return <span class="hint">null</span>;
  const shown = visible(text.slice(0, MOST_CHARACTERS));
  return (
    <bdi title={text.length > 40 ? text.slice(0, 2000) : undefined}>{text.length > MOST_CHARACTERS ? `${shown}…` : shown}</bdi>
  );
}

interface RowChoiceProps {
  readonly start: number;
  readonly end: number;
  readonly rows: number;
  readonly choose: (start: number) => void;
  readonly children: string | undefined;
}

function RowChoice({ start, end, rows, choose, children }: RowChoiceProps) {
  const jump = (event: SubmitEvent) => {
    event.preventDefault();
    const row = Number(new FormData(event.currentTarget as HTMLFormElement).get("row"));
    if (Number.isInteger(row) && row >= 1 && row <= rows) choose(row - 1);
  };
  return (
    <div class="row-choice">
      <span class="hint" role="status">
        rows {count(start + 1)}–{count(end)} of {count(rows)}
        {children && ` · ${children}`}
      </span>
      {rows > ROWS && (
        <form onSubmit={jump}>
          <button type="button" disabled={start === 0} onClick={() => choose(Math.max(0, start - ROWS))}>
            Previous
          </button>
          <button type="button" disabled={end >= rows} onClick={() => choose(end)}>
            Next
          </button>
          <label>
            Jump to row <input name="row" type="number" min={1} max={rows} required />
          </label>
          <button type="submit">Go</button>
        </form>
      )}
    </div>
  );
}

interface ColumnChoiceProps {
  readonly file: ParquetFile;
  readonly first: number;
  readonly choose: (first: number) => void;
}

function ColumnChoice({ file, first, choose }: ColumnChoiceProps) {
  const columns = file.names.length;
  const end = Math.min(first + COLUMNS, columns);
  return (
    <div class="row-choice">
      <span class="hint" role="status">
        columns {count(first + 1)}–{count(end)} of {count(columns)}
      </span>
      <button type="button" disabled={first === 0} onClick={() => choose(Math.max(0, first - COLUMNS))}>
        Columns before
      </button>
      <button type="button" disabled={end >= columns} onClick={() => choose(end)}>
        Further columns
      </button>
      <label>
        Column{" "}
        <select value={first} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {Array.from({ length: Math.ceil(columns / COLUMNS) }, (_, part) => (
            <option key={part} value={part * COLUMNS}>
              {visible(shortened(file.names[part * COLUMNS] ?? "", 40))}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
