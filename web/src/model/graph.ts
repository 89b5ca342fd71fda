/**
 * The graph of a log, row by row: in which lane a commit stands, and which lines come from above, pass, and go on below.
 *
 * A lane is held by a line that runs down to a parent that was not shown yet. A commit takes the lowest lane that waits for it, and its
 * first parent keeps that lane: so the first parents of the log's first commit all stand in lane 0. Rows never change once they are
 * appended, whatever follows.
 */

/** Lanes that are drawn; the lines of all others share one more place, which shows their number. */
export const DRAWN_LANES = 8;

/** A commit of a log: its ID, and those of its parents. */
export interface GraphCommit {
  readonly id: string;
  readonly parents: readonly string[];
}

/** One row. Lanes are whole numbers from 0; a line keeps its lane from the row where it begins to the row where it ends. */
export interface GraphRow {
  readonly lane: number;
  /** Lanes of the lines that come from the row above and end at this commit. */
  readonly ends: readonly number[];
  /** Lanes of the lines that pass. */
  readonly passes: readonly number[];
  /** Lanes of the lines from this commit to its parents. One may also be in `passes`: the two meet there, bound for the same parent. */
  readonly begins: readonly number[];
}

/** The rows of a log that grows at its end. */
export class Graph {
  readonly rows: GraphRow[] = [];
  /** One more than the highest lane that was used. */
  lanes = 0;
  /** For each lane the commit that its line leads to. */
  private readonly bound: (string | undefined)[] = [];
  private readonly shown = new Set<string>();

  /** Appends commits in the order of the log. Cost: a step for each open lane and commit. */
  append(commits: readonly GraphCommit[]): void {
    for (const commit of commits) this.rows.push(this.rowOf(commit));
  }

  private rowOf({ id, parents }: GraphCommit): GraphRow {
    const ends: number[] = [];
    const passes: number[] = [];
    for (const [lane, target] of this.bound.entries()) {
      if (target === id) ends.push(lane);
      else if (target !== undefined) passes.push(lane);
    }
    const lane = ends[0] ?? this.freeLane();
    for (const ending of ends) this.bound[ending] = undefined;
    this.shown.add(id);
    this.lanes = Math.max(this.lanes, lane + 1);
    const begins = parents
      .filter((parent) => !this.shown.has(parent)) // with wrong clocks a log can show a parent first; no line leads upwards
      .map((parent) => this.lineTo(parent, parent === parents[0] ? lane : undefined));
    return { lane, ends, passes, begins };
  }

  /** Returns the lane of a line that begins at the present row: `lane`, or else that of a line to the same parent, or a free one. */
  private lineTo(parent: string, lane: number | undefined): number {
    const existing = this.bound.indexOf(parent);
    const place = lane ?? (existing >= 0 ? existing : this.freeLane());
    this.bound[place] = parent;
    this.lanes = Math.max(this.lanes, place + 1);
    return place;
  }

  private freeLane(): number {
    const free = this.bound.indexOf(undefined);
    return free >= 0 ? free : this.bound.length;
  }
}

/** A line of a row as it is drawn: from a place at the row's upper edge or its middle to one at its middle or lower edge. */
export interface DrawnLine {
  readonly from: number;
  readonly to: number;
  readonly part: "upper" | "lower" | "whole";
  /** The lane whose colour it has. */
  readonly lane: number;
}

/** Returns the place, from the left, in which a lane is drawn. */
export function placeOf(lane: number): number {
  return Math.min(lane, DRAWN_LANES);
}

/** Returns the lines of a row, and the number of lanes that are not drawn by themselves. */
export function drawnLines(row: GraphRow): { readonly lines: readonly DrawnLine[]; readonly hidden: number } {
  const place = placeOf(row.lane);
  const line = (part: DrawnLine["part"], from: number, to: number, lane: number): DrawnLine => ({ part, from, to, lane });
  const lines = [
    ...row.passes.map((lane) => line("whole", placeOf(lane), placeOf(lane), lane)),
    ...row.ends.map((lane) => line("upper", placeOf(lane), place, lane)),
    ...row.begins.map((lane) => line("lower", place, placeOf(lane), lane)),
  ];
  const used = new Set([row.lane, ...row.ends, ...row.passes, ...row.begins]);
  return { lines, hidden: [...used].filter((lane) => lane >= DRAWN_LANES).length };
}
