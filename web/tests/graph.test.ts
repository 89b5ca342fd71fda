import { describe, expect, test } from "vitest";
import { DRAWN_LANES, drawnLines, Graph, type GraphCommit, type GraphRow } from "../src/model/graph";

/** Returns a source of numbers in [0, 1) that are the same for the same seed (mulberry32). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Dated extends GraphCommit {
  readonly created: number;
}

/** Returns the log of a random history as the API orders it: of those whose child was shown, always the one created last. */
function randomLog(seed: number): readonly GraphCommit[] {
  const random = numbers(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const commits: Dated[] = [];
  const [size, skewed, width] = [1 + below(120), random() < 0.3, 1 + below(30)];
  for (let number = 0; number < size; number += 1) {
    const recent = () => commits[Math.max(0, number - 1 - below(width))]?.id ?? "";
    const wishes = Array.from({ length: random() < 0.05 ? 0 : random() < 0.3 ? 2 + below(3) : 1 }, recent);
    commits.push({
      id: `c${number}`,
      parents: [...new Set(wishes.filter(Boolean))],
      created: skewed ? below(1000) : number,
    });
  }
  const byId = new Map(commits.map((commit) => [commit.id, commit]));
  const waiting = new Set([commits.at(-1) as Dated]);
  const shown = new Set<string>();
  const log: GraphCommit[] = [];
  while (waiting.size) {
    const commit = [...waiting].reduce((last, other) => (other.created > last.created ? other : last));
    waiting.delete(commit);
    shown.add(commit.id);
    log.push(commit);
    for (const parent of commit.parents) if (!shown.has(parent)) waiting.add(byId.get(parent) as Dated);
  }
  return log;
}

function rowsOf(log: readonly GraphCommit[]): readonly GraphRow[] {
  const graph = new Graph();
  graph.append(log);
  return graph.rows;
}

const sorted = (lanes: Iterable<number>) => [...new Set(lanes)].sort((left, right) => left - right);

const SEEDS = Array.from({ length: 300 }, (_, seed) => seed);

describe("of any history", () => {
  test("each row begins with the lanes with which the row above ends", () => {
    for (const seed of SEEDS) {
      const rows = rowsOf(randomLog(seed));
      expect(rows[0]?.ends.concat(rows[0].passes)).toEqual([]);
      for (const [number, row] of rows.slice(1).entries()) {
        const above = rows[number] as GraphRow;
        expect(sorted([...row.ends, ...row.passes]), `seed ${seed}`).toEqual(sorted([...above.passes, ...above.begins]));
      }
    }
  });

  test("a line leads from each commit to each parent below it, in one lane", () => {
    for (const seed of SEEDS) {
      const log = randomLog(seed);
      const rows = rowsOf(log);
      const places = new Map(log.map((commit, number) => [commit.id, number]));
      for (const [number, commit] of log.entries()) {
        const below = commit.parents.map((parent) => places.get(parent) as number).filter((place) => place > number);
        expect(rows[number]?.begins.length).toBe(below.length);
        for (const [order, place] of below.entries()) {
          const lane = rows[number]?.begins[order] as number;
          for (let row = number + 1; row < place; row += 1) expect(rows[row]?.passes, `seed ${seed}`).toContain(lane);
          expect(rows[place]?.ends, `seed ${seed}`).toContain(lane);
        }
      }
    }
  });

  test("nothing shares a lane with a line that passes, but lines that meet on their way to one parent", () => {
    for (const seed of SEEDS) {
      for (const { lane, ends, passes } of rowsOf(randomLog(seed))) {
        expect(passes).not.toContain(lane);
        expect(passes.filter((passing) => ends.includes(passing))).toEqual([]);
        expect(sorted(passes)).toEqual(passes);
      }
    }
  });

  test("first parents of the first commit keep lane 0", () => {
    for (const seed of SEEDS) {
      const log = randomLog(seed);
      const rows = rowsOf(log);
      let next = log[0]?.id;
      for (const [number, commit] of log.entries()) {
        if (commit.id !== next) continue;
        expect(rows[number]?.lane, `seed ${seed}`).toBe(0);
        next = commit.parents[0];
      }
    }
  });

  test("pages that are appended change nothing above", () => {
    for (const seed of SEEDS) {
      const log = randomLog(seed);
      const random = numbers(seed + 1000);
      const graph = new Graph();
      for (let first = 0; first < log.length; ) {
        const size = 1 + Math.floor(random() * 20);
        const before = structuredClone(graph.rows);
        graph.append(log.slice(first, first + size));
        expect(graph.rows.slice(0, before.length)).toEqual(before);
        first += size;
      }
      expect(graph.rows).toEqual(rowsOf(log));
    }
  });
});

test("lanes above eight are drawn in one place, with their number", () => {
  const heads = Array.from({ length: 12 }, (_, number) => `p${number}`);
  const [row] = rowsOf([{ id: "merge", parents: heads }]) as [GraphRow];
  const { lines, hidden } = drawnLines(row);
  expect(hidden).toBe(4);
  expect(Math.max(...lines.map(({ to }) => to))).toBe(DRAWN_LANES);
});
