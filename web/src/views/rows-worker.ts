/** Compares the rows of two versions of a table beside the page. It keeps them, so that other keys are compared without reading again. */
import { codeCsv } from "../model/csv-rows";
import type { CodedTables, Pair } from "../model/row-codes";
import { compareRows, proposeKeys } from "../model/row-difference";
import type { RowFormat } from "../model/row-limits";
import { type ShownDifference, showDifference } from "../model/row-view";

/** What the page asks: to read both versions, whose errors call them by `titles`, or to compare them by keys. */
export type RowRequest =
  | {
      readonly kind: "open";
      readonly format: RowFormat;
      readonly path: string;
      readonly titles: Pair<string>;
      readonly files: Pair<ArrayBuffer>;
    }
  | { readonly kind: "compare"; readonly keys: readonly string[] };

/** Both versions, once they are read. */
export interface OpenTables {
  readonly rows: Pair<number>;
  readonly columns: readonly { readonly name: string; readonly types: Pair<string | undefined> }[];
  /** The keys to compare by. */
  readonly proposal: readonly string[];
}

/** The difference, or a sentence why these keys do not do. */
export type ComparedRows = ShownDifference | { readonly problem: string };

let tables: CodedTables | undefined;
let sideTitles: Pair<string> = ["", ""];

async function answer(request: RowRequest): Promise<OpenTables | ComparedRows> {
  if (request.kind === "compare") return compare(request.keys);
  const { format, files, path, titles } = request;
  sideTitles = titles;
  if (format === "csv") tables = codeCsv([new Uint8Array(files[0]), new Uint8Array(files[1])], path, titles);
  else {
    const { codeParquet } = await import("./parquet-rows");
    tables = await codeParquet(files, titles, (read, all) => self.postMessage({ progress: read / all }));
  }
  return {
    rows: tables.rows,
    columns: tables.columns.map(({ name, types }) => ({ name, types })),
    proposal: proposeKeys(tables).map(({ name }) => name),
  };
}

function compare(names: readonly string[]): ComparedRows {
  if (!tables) throw new Error("the tables are not read yet");
  const { columns } = tables;
  const keys = names.map((name) => columns.find((column) => column.name.toLowerCase() === name.toLowerCase()));
  for (const [place, column] of keys.entries()) {
    const lacking = [0, 1].find((side) => column?.types[side] === undefined);
    if (lacking !== undefined)
      return { problem: `${sideTitles[lacking]}: no column ${JSON.stringify(names[place])}, which is named as a key.` };
  }
  const named = keys.flatMap((column) => (column ? [column] : []));
  const difference = compareRows(tables, named);
  if (!("side" in difference)) return showDifference(tables, named, difference);
  const { side, row } = difference;
  const key = named.map(({ name, codes, texts }) => `${name} = ${texts[codes[side][row] ?? 0]}`).join(", ");
  return { problem: `${sideTitles[side]}: several rows have the key ${key}. Choose more columns, or compare whole rows.` };
}

self.onmessage = ({ data }: MessageEvent<RowRequest>) => {
  answer(data).then(
    (result) => self.postMessage({ result }),
    (error: unknown) => self.postMessage({ failure: (error as Error).message }),
  );
};
