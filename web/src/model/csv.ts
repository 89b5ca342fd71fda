/** CSV as a preview reads it: separator guessed, quotes as RFC 4180, every size bounded. */

const SEPARATORS = [",", ";", "\t", "|"] as const;
const MOST_ROWS = 1000;
const MOST_COLUMNS = 100;
const MOST_CHARACTERS = 300;

/** Rows of equal length; the first row of the text is `header`. */
export interface CsvTable {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Number of columns of the widest row, shown or not. */
  readonly columns: number;
  /** Whether the text has more rows than these. */
  readonly more: boolean;
}

/** Parses the beginning of a CSV text. If the text is not `whole`, its last row is incomplete and left out, unless it is the only one. */
export function parseCsv(text: string, whole: boolean): CsvTable {
  const separator = separatorOf(text);
  const rows: string[][] = [];
  let columns = 0;
  let place = text.startsWith("\ufeff") ? 1 : 0;
  while (place < text.length && rows.length <= MOST_ROWS) {
    const row = readRow(text, place, separator);
    if (row.end >= text.length && !whole && !row.ended && rows.length) break;
    place = row.end;
    if (row.count === 1 && row.cells[0] === "") continue; // an empty line
    columns = Math.max(columns, row.count);
    rows.push(row.cells);
  }
  const width = Math.min(columns, MOST_COLUMNS);
  const filled = rows.map((row) => Array.from({ length: width }, (_, column) => row[column] ?? ""));
  return { header: filled[0] ?? [], rows: filled.slice(1), columns, more: place < text.length || !whole };
}

interface CsvRow {
  readonly cells: string[];
  readonly count: number;
  readonly end: number;
  readonly ended: boolean;
}

/** Reads the row that begins at `start`. Only the first columns and the beginnings of their values are kept. */
function readRow(text: string, start: number, separator: string): CsvRow {
  const cells: string[] = [];
  let count = 0;
  let place = start;
  for (;;) {
    const cell = text[place] === '"' ? readQuoted(text, place, separator) : readPlain(text, place, separator);
    if (count < MOST_COLUMNS)
      cells.push(cell.text.length > MOST_CHARACTERS ? `${cell.text.slice(0, MOST_CHARACTERS)}…` : cell.text);
    count += 1;
    place = cell.end;
    const mark = text[place];
    if (mark === separator) place += 1;
    else if (mark === undefined) return { cells, count, end: place, ended: false };
    else return { cells, count, end: place + (mark === "\r" && text[place + 1] === "\n" ? 2 : 1), ended: true };
  }
}

function readPlain(text: string, start: number, separator: string): { readonly text: string; readonly end: number } {
  let end = start;
  while (end < text.length && text[end] !== separator && text[end] !== "\n" && text[end] !== "\r") end += 1;
  return { text: text.slice(start, end), end };
}

function readQuoted(text: string, start: number, separator: string): { readonly text: string; readonly end: number } {
  const parts: string[] = [];
  let place = start + 1;
  for (;;) {
    const quote = text.indexOf('"', place);
    if (quote < 0) return { text: parts.join("") + text.slice(place), end: text.length };
    parts.push(text.slice(place, quote));
    if (text[quote + 1] !== '"') {
      // What follows the closing quote up to the next separator belongs to the value, as most readers have it.
      const rest = readPlain(text, quote + 1, separator);
      return { text: parts.join("") + rest.text, end: rest.end };
    }
    parts.push('"');
    place = quote + 2;
  }
}

/** Returns the separator that the first line has most of, outside of quotes. */
function separatorOf(text: string): string {
  const line =
    text
      .slice(0, 10_000)
      .replace(/"[^"]*"/g, "")
      .split(/\r?\n/, 1)[0] ?? "";
  const count = (separator: string) => line.split(separator).length;
  return [...SEPARATORS].sort((left, right) => count(right) - count(left))[0] ?? ",";
}
