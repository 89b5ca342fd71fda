/** The schema of a Parquet file: its columns with types, statistics and sizes. */
import type { ParquetColumn, ParquetFile } from "../model/parquet-file";
import { spanText } from "../model/parquet-statistics";
import { count, counted, size } from "../model/text";
import { Name } from "../parts/basics";
import { type Column, type Row, Table } from "../parts/table";

const SCHEMA_COLUMNS: readonly Column[] = [
  { title: "Column", kind: "name" },
  { title: "Type" },
  { title: "Stored as", wide: true },
  { title: "Nulls", kind: "number" },
  { title: "Smallest…largest", wide: true },
  { title: "Size", kind: "number" },
  { title: "", wide: true },
  { title: "Encodings", wide: true },
];

/** What a file's footer says of its columns. */
export function Schema({ file }: { readonly file: ParquetFile }) {
  const largest = Math.max(1, ...file.columns.map((column) => column.compressedBytes));
  const row = (number: number): Row => {
    const column = file.columns[number] as ParquetColumn;
    return {
      key: String(number),
      cells: [
        <Name key="name" text={column.path.join(" › ")} most={100} />,
        column.repeated ? `${column.type}, repeated` : column.type,
        <code key="physical">{column.physical}</code>,
        column.nulls === undefined ? "–" : column.nullable ? count(column.nulls) : "required",
        column.encrypted ? "encrypted" : spanText(column) || "–",
        <span key="size" title={`${size(column.uncompressedBytes)} uncompressed`}>
          {size(column.compressedBytes)}
        </span>,
        <meter key="bar" min={0} max={largest} value={column.compressedBytes} aria-label="Share of the largest column" />,
        <span key="encodings" class="hint">
          {[...column.codecs, ...column.encodings].join(", ").toLowerCase()}
        </span>,
      ],
    };
  };
  return (
    <>
      <Table label="Schema" columns={SCHEMA_COLUMNS} rows={file.columns.length} row={row} />
      <p class="hint">
        {counted(file.groups, "row group")}
        {file.writer && (
          <>
            {" "}
            · written by <Name text={file.writer} most={80} />
          </>
        )}
      </p>
    </>
  );
}
