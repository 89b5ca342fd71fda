/** Two versions of a table, by columns. A value stands as a number: equal values of a column have equal ones on both sides. */

/** The side before a change, and the one after it. */
export type Pair<T> = readonly [before: T, after: T];

/** The code of a null, and of every value of a column that a side lacks. */
export const NULL_CODE = 0;
/** How many characters of a value are kept to be shown. */
const MOST_CHARACTERS = 300;

/** A column of both sides. */
export interface CodedColumn {
  readonly name: string;
  /** Its types; undefined on a side that has no such column. */
  readonly types: Pair<string | undefined>;
  readonly codes: Pair<Int32Array>;
  /** Texts by code, each shortened. */
  readonly texts: readonly string[];
  /** Whether it holds measures, which tell no rows apart even where no two are equal. */
  readonly measure: boolean;
}

/** Both versions of a table. */
export interface CodedTables {
  readonly columns: readonly CodedColumn[];
  /** Numbers of rows. */
  readonly rows: Pair<number>;
}

/** Gives the values of one column their codes. */
export class ValueCodes {
  readonly #codes = new Map<string, number>();
  readonly texts: string[] = ["null"];

  /** Returns the code of a value; `identity` is what it is compared by, undefined for null, and `show` returns its text. */
  codeOf(identity: string | undefined, show: () => string): number {
    if (identity === undefined) return NULL_CODE;
    const code = this.#codes.get(identity);
    if (code !== undefined) return code;
    this.#codes.set(identity, this.texts.length);
    const text = show();
    this.texts.push(text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text);
    return this.texts.length - 1;
  }
}

/** Pairs columns by their names, of which those that differ only in case are one. The order is that of the side before. */
export function pairedNames(names: Pair<readonly string[]>): readonly Pair<number | undefined>[] {
  const places = names.map((side) => new Map(side.map((name, place) => [name.toLowerCase(), place])));
  const keys = new Set(places.flatMap((side) => [...side.keys()]));
  return [...keys].map((key): Pair<number | undefined> => [places[0]?.get(key), places[1]?.get(key)]);
}
