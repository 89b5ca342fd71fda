/** The lines in which two texts differ, beside one another. */

/** A row of a comparison: a line of each side with its number from 1; a side without a line there is `undefined`. */
export interface LinePair {
  readonly left: NumberedLine | undefined;
  readonly right: NumberedLine | undefined;
}

export interface NumberedLine {
  readonly number: number;
  readonly text: string;
}

/** A run of rows: all equal, or with differences. */
export interface Hunk {
  readonly equal: boolean;
  readonly pairs: readonly LinePair[];
}

/** Differing lines for which the shortest edit is looked for; texts that differ in more are shown as one replaced by the other. */
const MOST_EDITS = 2000;

/** Returns the lines of a text; a newline at its end begins no further line. */
export function linesOf(text: string): readonly string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Returns how two texts differ by lines, as hunks in order. Cost: lines times edits; at most 2,000 edits are looked for. */
export function compareLines(left: readonly string[], right: readonly string[]): readonly Hunk[] {
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let tail = 0;
  while (tail < left.length - start && tail < right.length - start && left.at(-1 - tail) === right.at(-1 - tail)) tail += 1;
  const matches: [number, number][] = [];
  for (let index = 0; index < start; index += 1) matches.push([index, index]);
  for (const [before, after] of matching(left.slice(start, left.length - tail), right.slice(start, right.length - tail))) {
    matches.push([before + start, after + start]);
  }
  for (let index = tail; index > 0; index -= 1) matches.push([left.length - index, right.length - index]);
  return hunksOf(left, right, matches);
}

/** Returns the pairs of equal lines of a longest common subsequence (Myers' O(ND)); none if there are too many edits. */
function matching(left: readonly string[], right: readonly string[]): readonly (readonly [number, number])[] {
  const [rows, columns] = [left.length, right.length];
  if (!rows || !columns) return [];
  const most = Math.min(rows + columns, MOST_EDITS);
  const furthest = new Int32Array(2 * most + 3);
  const zero = most + 1;
  const trace: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(furthest.slice(zero - edits - 1, zero + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const [, start] = arrival(furthest, zero, diagonal, edits);
      let x = start;
      while (x < rows && x - diagonal < columns && left[x] === right[x - diagonal]) x += 1;
      furthest[zero + diagonal] = x;
      if (x >= rows && x - diagonal >= columns) return walkBack(trace, rows, columns);
    }
  }
  return [];
}

/**
 * Returns the diagonal from which the last edit reaches `diagonal`, and the number of left lines that are behind it then. `furthest` holds
 * the furthest place on each diagonal before that edit, that of diagonal 0 at index `zero`.
 */
function arrival(furthest: Int32Array, zero: number, diagonal: number, edits: number): readonly [from: number, x: number] {
  const [below, above] = [furthest[zero + diagonal - 1] ?? 0, furthest[zero + diagonal + 1] ?? 0];
  const inserted = diagonal === -edits || (diagonal !== edits && below < above);
  return inserted ? [diagonal + 1, above] : [diagonal - 1, below + 1];
}

/** Returns the equal pairs along the path that `trace` records: for each number of edits, the furthest places before it. */
function walkBack(trace: readonly Int32Array[], rows: number, columns: number): readonly (readonly [number, number])[] {
  const pairs: [number, number][] = [];
  let [x, diagonal] = [rows, rows - columns];
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const furthest = trace[edits] as Int32Array;
    const [from, start] = arrival(furthest, edits + 1, diagonal, edits);
    for (; x > start; x -= 1) pairs.push([x - 1, x - 1 - diagonal]);
    x = from < diagonal ? start - 1 : start;
    diagonal = from;
  }
  return pairs.reverse();
}

function hunksOf(
  left: readonly string[],
  right: readonly string[],
  matches: readonly (readonly [number, number])[],
): readonly Hunk[] {
  const hunks: { equal: boolean; pairs: LinePair[] }[] = [];
  const line = (lines: readonly string[], index: number, end: number): NumberedLine | undefined =>
    index < end ? { number: index + 1, text: lines[index] ?? "" } : undefined;
  const put = (equal: boolean, pair: LinePair) => {
    const last = hunks.at(-1);
    if (last?.equal === equal) last.pairs.push(pair);
    else hunks.push({ equal, pairs: [pair] });
  };
  let [x, y] = [0, 0];
  const differing = (endX: number, endY: number) => {
    while (x < endX || y < endY) {
      put(false, { left: line(left, x, endX), right: line(right, y, endY) });
      x = Math.min(endX, x + 1);
      y = Math.min(endY, y + 1);
    }
  };
  for (const [before, after] of matches) {
    differing(before, after);
    put(true, { left: line(left, x, x + 1), right: line(right, y, y + 1) });
    x += 1;
    y += 1;
  }
  differing(left.length, right.length);
  return hunks;
}

/** Returns the hunks with only `context` equal rows around each difference; `skipped` rows are left out before a hunk. */
export function withContext(hunks: readonly Hunk[], context = 3): readonly { readonly skipped: number; readonly hunk: Hunk }[] {
  return hunks.flatMap((hunk, number) => {
    if (!hunk.equal) return [{ skipped: 0, hunk }];
    const after = number > 0 ? hunk.pairs.slice(0, context) : [];
    const rest = hunk.pairs.slice(after.length);
    const before = number < hunks.length - 1 ? rest.slice(Math.max(0, rest.length - context)) : [];
    const skipped = rest.length - before.length;
    const parts: { skipped: number; hunk: Hunk }[] = [];
    if (after.length) parts.push({ skipped: 0, hunk: { equal: true, pairs: after } });
    if (before.length || skipped) parts.push({ skipped, hunk: { equal: true, pairs: before } });
    return parts;
  });
}
