/** Two versions of a table in CSV, in codes. */
import { readCsv } from "./csv-table";
import { type CodedColumn, type CodedTables, type Pair, pairedNames, ValueCodes } from "./row-codes";
import { expectRows } from "./row-limits";

const TYPE = "VARCHAR";

/** Codes the values of two texts. Errors are sentences that name the side by `titles`. */
export function codeCsv(sides: Pair<Uint8Array>, path: string, titles: Pair<string>): CodedTables {
  const names: (readonly string[])[] = [];
  const values: ValueCodes[] = [];
  const coded: number[][][] = [];
  const rows: number[] = [];
  const places = new Map<string, number>();
  for (const side of [0, 1] as const) {
    try {
      const table = readCsv(decoded(sides[side]), path);
      names.push(table.names);
      const columns = table.names.map((name) => {
        const key = name.toLowerCase();
        if (!places.has(key)) places.set(key, values.push(new ValueCodes()) - 1);
        return values[places.get(key) as number] as ValueCodes;
      });
      const codes: number[][] = columns.map(() => []);
      let number = 0;
      for (const row of table.rows) {
        number += 1;
        expectRows(number);
        for (const [place, column] of columns.entries()) {
          const value = row[place];
          codes[place]?.push(column.codeOf(value, () => value ?? ""));
        }
      }
      coded.push(codes);
      rows.push(number);
    } catch (error) {
      throw new Error(`${titles[side]}: ${(error as Error).message}.`);
    }
  }
  const columns = pairedNames(names as unknown as Pair<readonly string[]>).map((pair): CodedColumn => {
    const sideOf = (side: 0 | 1) => {
      const place = pair[side];
      return place === undefined ? undefined : { name: names[side]?.[place] ?? "", codes: coded[side]?.[place] ?? [] };
    };
    const [before, after] = [sideOf(0), sideOf(1)];
    const name = (after ?? before)?.name ?? "";
    return {
      name,
      types: [before && TYPE, after && TYPE],
      codes: [
        Int32Array.from(before?.codes ?? new Array(rows[0]).fill(0)),
        Int32Array.from(after?.codes ?? new Array(rows[1]).fill(0)),
      ],
      texts: values[places.get(name.toLowerCase()) as number]?.texts ?? [],
      measure: false,
    };
  });
  return { columns, rows: [rows[0] ?? 0, rows[1] ?? 0] };
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Error("it is not UTF-8");
  }
}
