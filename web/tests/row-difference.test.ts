import { describe, expect, test } from "vitest";
import { type CodedColumn, type CodedTables, type Pair, pairedNames, ValueCodes } from "../src/model/row-codes";
import { compareRows, proposeKeys, type RowDifference } from "../src/model/row-difference";

type Value = string | undefined;
type Side = { readonly names: readonly string[]; readonly rows: readonly (readonly Value[])[] };

function tables(before: Side, after: Side): CodedTables {
  const columns = pairedNames([before.names, after.names]).map((places): CodedColumn => {
    const values = new ValueCodes();
    const codes = [before, after].map((side, number) => {
      const place = places[number];
      const codeOf = (value: Value) => values.codeOf(value, () => `${value}`);
      return Int32Array.from(side.rows, (row) => (place === undefined ? 0 : codeOf(row[place])));
    }) as [Int32Array, Int32Array];
    const name = places[1] === undefined ? before.names[places[0] as number] : after.names[places[1]];
    const types = places.map((place) => (place === undefined ? undefined : "VARCHAR")) as [Value, Value];
    return { name: name ?? "", types, codes, texts: values.texts, measure: name === "measure" };
  });
  return { columns, rows: [before.rows.length, after.rows.length] };
}

const side = (names: string, ...rows: string[]): Side => ({
  names: names.split(","),
  rows: rows.map((row) => row.split(",").map((value) => value || undefined)),
});

function difference(before: Side, after: Side, keys: string[] = []) {
  const both = tables(before, after);
  return compareRows(
    both,
    keys.map((key) => both.columns.find(({ name }) => name === key) as CodedColumn),
  );
}

describe("rows by keys", () => {
  test("are removed, changed or added", () => {
    const before = side("id,amount", "1,100", "2,7", "4,8");
    const after = side("id,amount", "4,8", "1,250", "3,9");
    expect(difference(before, after, ["id"])).toEqual({ removed: [1], changed: [[0, 1]], added: [2] });
  });

  test("with a column that one side lacks are changed where it has a value", () => {
    const before = side("id,a", "1,x", "2,x");
    expect(difference(before, side("id,a,b", "1,x,", "2,x,y"), ["id"])).toEqual({ removed: [], changed: [[1, 1]], added: [] });
    expect(difference(side("id,a,b", "1,x,", "2,x,y"), before, ["id"])).toEqual({ removed: [], changed: [[1, 1]], added: [] });
  });

  test("of null are rows like others, once a side", () => {
    expect(difference(side("id,a", ",x"), side("id,a", ",y"), ["id"])).toEqual({ removed: [], changed: [[0, 0]], added: [] });
    expect(difference(side("id,a", ",x"), side("id,a", ",x", ",y"), ["id"])).toEqual({ side: 1, row: 1 });
  });

  test("of several columns", () => {
    const before = side("a,b,v", "1,2,x", "12,,y", ",12,z");
    const after = side("a,b,v", ",12,z", "1,2,x", "12,,w");
    expect(difference(before, after, ["a", "b"])).toEqual({ removed: [], changed: [[1, 2]], added: [] });
  });
});

test("whole rows count as often as one side has more of them", () => {
  const before = side("a,b", "1,x", "1,x", "1,x", "2,y", ",");
  const after = side("a,b", ",", "1,x", "3,z", "3,z");
  expect(difference(before, after)).toEqual({ removed: [1, 2, 3], changed: [], added: [2, 3] });
});

test("names that differ in case are one", () => {
  expect(difference(side("ID,A", "1,x"), side("a,id", "x,1"))).toEqual({ removed: [], changed: [], added: [] });
});

describe("a proposal of keys", () => {
  const proposal = (before: Side, after = before) => proposeKeys(tables(before, after)).map(({ name }) => name);
  test.each([
    ["id before others", side("order_id,id", "1,1", "2,2"), ["id"]],
    ["one that is called like an ID", side("a,orderId", "1,1", "2,2"), ["orderId"]],
    ["the first that is unique", side("a,b,c", "1,1,1", "1,2,2"), ["b"]],
    ["no column with a null", side("id,b", "1,1", ",2"), ["b"]],
    ["no measure", side("measure,b", "1,1", "2,1"), []],
    ["none of an empty table", side("id"), []],
  ])("is %s", (_, table, expected) => expect(proposal(table)).toEqual(expected));

  test("has a column of both sides that is unique on both", () => {
    expect(proposal(side("id,b", "1,1", "2,2"), side("id,b", "1,1", "1,2"))).toEqual(["b"]);
    expect(proposal(side("id,b", "1,1", "2,2"), side("c,b", "1,1", "2,2"))).toEqual(["b"]);
  });
});

/** The same by a plain reading of the rules, in time with the square of the rows. */
function plainDifference(before: Side, after: Side, keys: string[]): RowDifference | undefined {
  const names = [...new Set([...before.names, ...after.names])];
  const value = (table: Side, row: number, name: string) => table.rows[row]?.[table.names.indexOf(name)] ?? null;
  const same = (columns: string[], one: Pair<Side | number>, other: Pair<Side | number>) =>
    columns.every(
      (name) => value(one[0] as Side, one[1] as number, name) === value(other[0] as Side, other[1] as number, name),
    );
  const numbers = (table: Side) => table.rows.map((_, row) => row);
  if (!keys.length) {
    const surplus = (one: Side, other: Side) =>
      numbers(one).filter((row) => {
        const equal = (table: Side) => numbers(table).filter((candidate) => same(names, [one, row], [table, candidate]));
        return equal(one).indexOf(row) >= equal(other).length;
      });
    return { removed: surplus(before, after), changed: [], added: surplus(after, before) };
  }
  for (const table of [before, after])
    for (const row of numbers(table))
      for (let next = 0; next < row; next += 1) if (same(keys, [table, row], [table, next])) return;
  const partner = (one: Side, row: number, other: Side) =>
    numbers(other).find((candidate) => same(keys, [one, row], [other, candidate]));
  return {
    removed: numbers(before).filter((row) => partner(before, row, after) === undefined),
    changed: numbers(before).flatMap((row) => {
      const other = partner(before, row, after);
      return other === undefined || same(names, [before, row], [after, other]) ? [] : [[row, other] as const];
    }),
    added: numbers(after).filter((row) => partner(after, row, before) === undefined),
  };
}

describe("random tables", () => {
  let seed = 1;
  const random = (most: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return Math.floor((seed / 2 ** 32) * most);
  };
  const randomSide = (): Side => {
    const names = ["a", "b", "c"].filter(() => random(5) > 0);
    const width = names.length ? names : ["a"];
    return {
      names: width,
      rows: Array.from({ length: random(9) }, () => width.map(() => (random(6) ? `${random(6)}` : undefined))),
    };
  };

  test("differ as a plain reading of the rules says", () => {
    let compared = 0;
    for (let round = 0; round < 3000; round += 1) {
      const [before, after] = [randomSide(), randomSide()];
      const keys = before.names.filter((name) => after.names.includes(name) && random(2));
      const expected = plainDifference(before, after, keys);
      const found = difference(before, after, keys);
      if (!expected) {
        expect(found).toHaveProperty("side");
        continue;
      }
      compared += 1;
      if (keys.length) {
        expect(found).toEqual(expected);
        continue;
      }
      // Which of equal rows is the surplus one does not matter.
      const { removed, added } = found as RowDifference;
      const texts = (table: Side, rows: readonly number[]) => rows.map((row) => JSON.stringify(table.rows[row])).sort();
      expect(texts(before, removed)).toEqual(texts(before, expected.removed));
      expect(texts(after, added)).toEqual(texts(after, expected.added));
    }
    expect(compared).toBeGreaterThan(1500);
  });
});
