/** CSV as a whole table, as `graveler diff --rows` reads it: the first line names the columns, and what is no CSV is an error. */

const SEPARATORS = ",\t;|";

/** Names of the columns, and the rows, one after the other; an empty value is undefined. */
export interface CsvContents {
  readonly names: readonly string[];
  readonly rows: Iterable<readonly (string | undefined)[]>;
}

/** Reads a text. `path` says which separator is expected. Errors, also those that come with a later row, are sentences about the line. */
export function readCsv(text: string, path: string): CsvContents {
  const start = text.startsWith("\ufeff") ? 1 : 0;
  if (start === text.length) return { names: [], rows: [] };
  const separator = separatorOf(text, start, path);
  const lines = new Lines(text, start, separator);
  const [...head] = lines.next() ?? [];
  if (!head.some((name) => name?.trim())) throw new Error("its first line, which names the columns, is empty");
  const names = uniqueNames(head);
  return { names, rows: rowsOf(lines, names.length) };
}

function* rowsOf(lines: Lines, width: number): Generator<readonly (string | undefined)[]> {
  for (let values = lines.next(); values; values = lines.next()) {
    if (values.length === 1 && width > 1 && lines.blank) continue;
    // A separator at the end of a line begins no further value.
    if (values.length === width + 1 && values[width] === undefined) values.pop();
    if (values.length !== width) {
      const number = `${values.length} value${values.length === 1 ? "" : "s"}`;
      throw new Error(`line ${lines.number} has ${number}, and the first one names ${width} column${width === 1 ? "" : "s"}`);
    }
    yield values;
  }
}

/** Returns the separator that the first line has most of outside of quotes; the one that the name promises if there are several. */
function separatorOf(text: string, start: number, path: string): string {
  const counts = new Map<string, number>();
  let quoted = false;
  for (let place = start; place < text.length; place += 1) {
    const character = text[place] as string;
    if (character === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (character === "\n" || character === "\r") break;
    else if (SEPARATORS.includes(character)) counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  const expected = path.toLowerCase().endsWith(".tsv") ? "\t" : ",";
  let best = expected;
  for (const candidate of SEPARATORS) if ((counts.get(candidate) ?? 0) > (counts.get(best) ?? 0)) best = candidate;
  return best;
}

/** Returns names without spaces around them; one that is empty gets its place, and one that stands twice a number. */
function uniqueNames(head: readonly (string | undefined)[]): readonly string[] {
  const names: string[] = [];
  const lowered = new Set<string>();
  for (const [place, value] of head.entries()) {
    const name = value?.trim() || `column${place}`;
    let unique = name;
    for (let number = 1; lowered.has(unique.toLowerCase()); number += 1) unique = `${name}_${number}`;
    lowered.add(unique.toLowerCase());
    names.push(unique);
  }
  return names;
}

/** The lines of a text as values. */
class Lines {
  /** Number of the line that was read last, from 1; a line break within quotes counts. */
  number = 0;
  /** Whether that line has no character. */
  blank = false;
  #further = 1;
  #lineEnd = "";

  constructor(
    private readonly text: string,
    private place: number,
    private readonly separator: string,
  ) {}

  /** Returns the values of the next line; undefined after the last one. */
  next(): (string | undefined)[] | undefined {
    if (this.place >= this.text.length) return undefined;
    this.number = this.#further;
    const start = this.place;
    const values: (string | undefined)[] = [];
    for (;;) {
      values.push(this.value() || undefined);
      if (this.text[this.place] !== this.separator) break;
      this.place += 1;
    }
    this.blank = this.place === start;
    this.endLine();
    return values;
  }

  private value(): string {
    let start = this.place;
    while (this.text[start] === " ") start += 1;
    if (this.text[start] === '"') return this.quoted(start);
    start = this.place;
    while (this.place < this.text.length && !this.ends(this.place)) this.place += 1;
    return this.text.slice(start, this.place);
  }

  private quoted(start: number): string {
    let value = "";
    let place = start + 1;
    for (;;) {
      const quote = this.text.indexOf('"', place);
      if (quote < 0) throw new Error(`line ${this.number} has a quote that is not closed`);
      value += this.text.slice(place, quote);
      if (this.text[quote + 1] !== '"') {
        place = quote + 1;
        break;
      }
      value += '"';
      place = quote + 2;
    }
    this.#further += value.includes("\n") ? value.split("\n").length - 1 : 0;
    while (this.text[place] === " ") place += 1;
    this.place = place;
    if (place < this.text.length && !this.ends(place)) {
      throw new Error(`line ${this.number} has a character behind a closing quote`);
    }
    return value;
  }

  private ends(place: number): boolean {
    const character = this.text[place];
    return character === this.separator || character === "\n" || character === "\r";
  }

  private endLine(): void {
    if (this.place >= this.text.length) return;
    const end = this.text[this.place] === "\r" ? (this.text[this.place + 1] === "\n" ? "\r\n" : "\r") : "\n";
    this.#lineEnd ||= end;
    if (end !== this.#lineEnd) throw new Error("its lines end in several ways");
    this.place += end.length;
    this.#further += 1;
  }
}
