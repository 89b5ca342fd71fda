/** Rows that differ, as they are shown: some of each kind, of some columns, as texts. */
import { type CodedColumn, type CodedTables, NULL_CODE } from "./row-codes";
import type { RowDifference } from "./row-difference";

/** How many rows of each kind the worker hands over. */
export const MOST_ROWS = 500;
const MOST_COLUMNS = 50;

/** A value's text; null for null. */
export type ShownText = string | null;

/** A value; `before` is set where a changed row had another one. */
export interface ShownCell {
  readonly text: ShownText;
  readonly before?: ShownText;
}

/** A row of one side, or of both. */
export interface ShownRow {
  readonly kind: "removed" | "changed" | "added";
  readonly cells: readonly ShownCell[];
}

/** A column that is shown, with the number of changed rows in which its value is another one. */
export interface ShownColumn {
  readonly name: string;
  readonly key: boolean;
  readonly changes: number;
}

/** What is shown of a difference. `counts` are of all rows, `hidden` of columns that are left out. */
export interface ShownDifference {
  readonly counts: Readonly<Record<ShownRow["kind"], number>>;
  readonly columns: readonly ShownColumn[];
  readonly hidden: number;
  readonly rows: readonly ShownRow[];
}

/** Returns what is shown: the keys first, then the columns with most changes. Removed rows come first, then changed and added ones. */
export function showDifference(
  { columns }: CodedTables,
  keys: readonly CodedColumn[],
  { removed, changed, added }: RowDifference,
): ShownDifference {
  const changes = new Map(
    columns.map((column) => {
      const [before, after] = column.codes;
      return [column, changed.reduce((sum, [row, other]) => sum + Number(before[row] !== after[other]), 0)];
    }),
  );
  const values = columns.filter((column) => !keys.includes(column));
  const ordered = [...keys, ...values.sort((left, right) => (changes.get(right) ?? 0) - (changes.get(left) ?? 0))];
  const shown = ordered.slice(0, MOST_COLUMNS);
  const text = ({ codes, texts }: CodedColumn, side: 0 | 1, row: number): ShownText => {
    const code = codes[side][row] ?? NULL_CODE;
    return code === NULL_CODE ? null : (texts[code] ?? null);
  };
  const whole = (kind: "removed" | "added", side: 0 | 1, rows: readonly number[]): ShownRow[] =>
    rows.slice(0, MOST_ROWS).map((row) => ({ kind, cells: shown.map((column) => ({ text: text(column, side, row) })) }));
  const both = changed.slice(0, MOST_ROWS).map(
    ([row, other]): ShownRow => ({
      kind: "changed",
      cells: shown.map((column): ShownCell => {
        const after = text(column, 1, other);
        return column.codes[0][row] === column.codes[1][other]
          ? { text: after }
          : { text: after, before: text(column, 0, row) };
      }),
    }),
  );
  return {
    counts: { removed: removed.length, changed: changed.length, added: added.length },
    columns: shown.map((column) => ({ name: column.name, key: keys.includes(column), changes: changes.get(column) ?? 0 })),
    hidden: ordered.length - shown.length,
    rows: [...whole("removed", 0, removed), ...both, ...whole("added", 1, added)],
  };
}

/** Returns the columns that an address names as keys; undefined if it leaves the choice to the page. Names are percent-encoded. */
export function parseKeys(text: string): readonly string[] | undefined {
  if (!text) return undefined;
  return text
    .split(",")
    .filter(Boolean)
    .map((name) => {
      try {
        return decodeURIComponent(name);
      } catch {
        return name; // not percent-encoding; the name is what was typed
      }
    });
}

/** Returns keys as an address names them; a comma alone for none, which compares whole rows. */
export function formatKeys(keys: readonly string[]): string {
  return keys.map(encodeURIComponent).join(",") || ",";
}
