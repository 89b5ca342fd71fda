/**
 * The rows in which two versions of a table differ, as `graveler diff --rows` finds them: by keys, or whole rows as a multiset. Null is a
 * value like others. Cost: the rows times the columns.
 */
import { type CodedColumn, type CodedTables, NULL_CODE, type Pair } from "./row-codes";

/** Rows by their numbers in their sides. Without keys no row is changed. */
export interface RowDifference {
  readonly removed: readonly number[];
  readonly changed: readonly Pair<number>[];
  readonly added: readonly number[];
}

/** A key that several rows of one side have, so that it tells no rows apart. */
export interface RepeatedKey {
  readonly side: 0 | 1;
  /** A row that has it. */
  readonly row: number;
}

/** Returns the rows that differ. `keys` are columns of the tables; with none, whole rows are compared. */
export function compareRows(tables: CodedTables, keys: readonly CodedColumn[]): RowDifference | RepeatedKey {
  return keys.length ? compareByKeys(tables, keys) : compareWhole(tables);
}

function compareByKeys(tables: CodedTables, keys: readonly CodedColumn[]): RowDifference | RepeatedKey {
  const { groups, number } = grouped(tables, keys);
  const places = groups.map(() => new Int32Array(number).fill(-1));
  for (const side of [0, 1] as const) {
    for (const [row, group] of (groups[side] as Int32Array).entries()) {
      const place = places[side] as Int32Array;
      if (place[group] !== -1) return { side, row };
      place[group] = row;
    }
  }
  const [before, after] = places as [Int32Array, Int32Array];
  const values = tables.columns.filter((column) => !keys.includes(column));
  const removed: number[] = [];
  const changed: Pair<number>[] = [];
  for (const [row, group] of groups[0].entries()) {
    const other = after[group] as number;
    if (other === -1) removed.push(row);
    else if (values.some(({ codes }) => codes[0][row] !== codes[1][other])) changed.push([row, other]);
  }
  const added: number[] = [];
  for (const [row, group] of groups[1].entries()) if (before[group] === -1) added.push(row);
  return { removed, changed, added };
}

/** Each row is as often removed or added as one side has more of it. */
function compareWhole(tables: CodedTables): RowDifference {
  const { groups, number } = grouped(tables, tables.columns);
  const surplus = new Int32Array(number);
  for (const group of groups[1]) surplus[group] = (surplus[group] ?? 0) + 1;
  for (const group of groups[0]) surplus[group] = (surplus[group] ?? 0) - 1;
  const take = (rows: Int32Array, sign: 1 | -1): number[] => {
    const surplusRows: number[] = [];
    for (let row = rows.length - 1; row >= 0; row -= 1) {
      const group = rows[row] as number;
      if ((surplus[group] as number) * sign <= 0) continue;
      surplus[group] = (surplus[group] as number) - sign;
      surplusRows.push(row);
    }
    return surplusRows.reverse();
  };
  return { removed: take(groups[0], -1), changed: [], added: take(groups[1], 1) };
}

interface Grouped {
  /** The group of each row, from 0. */
  readonly groups: Pair<Int32Array>;
  readonly number: number;
}

/** Puts rows of both sides that are equal in all these columns into one group. */
function grouped({ rows }: CodedTables, columns: readonly CodedColumn[]): Grouped {
  const hashes = rows.map((number) => new Int32Array(number)) as [Int32Array, Int32Array];
  for (const { codes } of columns) {
    for (const side of [0, 1] as const) {
      const [hash, code] = [hashes[side], codes[side]];
      for (let row = 0; row < hash.length; row += 1) {
        const mixed = Math.imul((hash[row] as number) ^ (code[row] as number), 0x9e3779b1);
        hash[row] = mixed ^ (mixed >>> 15);
      }
    }
  }
  const total = rows[0] + rows[1];
  const mask = 2 ** Math.ceil(Math.log2(2 * total + 2)) - 1;
  const slots = new Int32Array(mask + 1).fill(-1);
  // The first row of each group: its side, and its number there.
  const sides: (0 | 1)[] = [];
  const numbers: number[] = [];
  const groupOf = (side: 0 | 1, row: number): number => {
    for (let slot = (hashes[side][row] as number) & mask; ; slot = (slot + 1) & mask) {
      const group = slots[slot] as number;
      if (group === -1) {
        slots[slot] = sides.length;
        sides.push(side);
        numbers.push(row);
        return sides.length - 1;
      }
      const [otherSide, other] = [sides[group] as 0 | 1, numbers[group] as number];
      if (columns.every(({ codes }) => codes[side][row] === codes[otherSide][other])) return group;
    }
  };
  const groups = ([0, 1] as const).map((side) => hashes[side].map((_, row) => groupOf(side, row)));
  return { groups: groups as unknown as Pair<Int32Array>, number: sides.length };
}

const ID_LIKE = /^(?:.*[_\s.-])?(?:id|uuid|guid|key|pk)$/i;
const ID_LIKE_END = /[a-z](?:Id|ID|Key)$/;

/**
 * Returns the columns to propose as keys: one that both sides have, in which no two rows of a side are equal and none is null. One that is
 * called like an ID comes first; measures are never keys. None if there is no such column.
 */
export function proposeKeys({ columns, rows }: CodedTables): readonly CodedColumn[] {
  if (!rows[0] || !rows[1]) return [];
  const rank = ({ name }: CodedColumn) => (/^id$/i.test(name) ? 0 : ID_LIKE.test(name) || ID_LIKE_END.test(name) ? 1 : 2);
  const candidates = columns.filter(({ types, measure }) => !measure && types[0] !== undefined && types[1] !== undefined);
  const [key] = [0, 1, 2].flatMap((number) => candidates.filter((column) => rank(column) === number)).filter(isUnique);
  return key ? [key] : [];
}

function isUnique({ codes, texts }: CodedColumn): boolean {
  return codes.every((side) => {
    const seen = new Uint8Array(texts.length);
    for (const code of side) {
      if (code === NULL_CODE || seen[code]) return false;
      seen[code] = 1;
    }
    return true;
  });
}
