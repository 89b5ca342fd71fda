/** Which side of a conflict a merge takes, by path or folder, as the address keeps it. */
import type { PrefixStrategy } from "../api/schema";

/** The two ways to decide. */
export type Side = "source" | "destination";

/** Decisions by path: of an object, or of a folder, which ends with a slash or is empty. */
export type Decisions = ReadonlyMap<string, Side>;

const STRATEGIES = { source: "source-wins", destination: "dest-wins" } as const;
const CODES: Readonly<Record<string, Side>> = { s: "source", d: "destination" };

/** Returns the decisions of an address: `s:raw%2F,d:notes.txt`. What is not one is left out. */
export function parseDecisions(text: string): Decisions {
  const decisions = new Map<string, Side>();
  for (const item of text ? text.split(",") : []) {
    const side = item[1] === ":" ? CODES[item[0] ?? ""] : undefined;
    const prefix = decoded(item.slice(2));
    if (side && prefix !== undefined) decisions.set(prefix, side);
  }
  return decisions;
}

/** Returns decisions as text for an address, in the order of their prefixes. */
export function formatDecisions(decisions: Decisions): string {
  return [...decisions]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([prefix, side]) => `${side[0]}:${prefix.replace(/[%,]/g, encodeURIComponent)}`)
    .join(",");
}

/** Returns the decision for a path, with the path of what decides: the object itself, or the innermost folder. `undefined` where none does. */
export function decisionFor(decisions: Decisions, path: string): readonly [side: Side, by: string] | undefined {
  return longest(decisions, (decided) => decided === path || (isFolder(decided) && path.startsWith(decided)));
}

/**
 * Returns decisions with one more; `undefined` takes it back. A decision for a folder replaces those for what is in it.
 */
export function decide(decisions: Decisions, prefix: string, side: Side | undefined): Decisions {
  const folder = isFolder(prefix);
  const rest = [...decisions].filter(([other]) => (folder ? !other.startsWith(prefix) : other !== prefix));
  return new Map(side ? [...rest, [prefix, side]] : rest);
}

/** Returns whether decisions for objects, as a merge's `strategies`, would also hold for conflicts that `strategiesOf` is not told of. */
export function reachFurther(decisions: Decisions): boolean {
  return [...decisions.keys()].some((path) => !isFolder(path));
}

/**
 * Returns the decisions as a merge's `strategies`. Each of these holds for all paths that begin with its prefix, unless a longer one does: so
 * those of `paths`, the paths of conflicts, that begin with the path of another object get one of their own.
 */
export function strategiesOf(decisions: Decisions, paths: readonly string[]): PrefixStrategy[] {
  const sides = new Map<string, Side | undefined>(decisions);
  for (const path of [...paths].sort()) {
    const side = decisionFor(decisions, path)?.[0];
    if (longest(sides, (prefix) => path.startsWith(prefix))?.[0] !== side) sides.set(path, side);
  }
  return [...sides].map(([prefix, side]) => ({ prefix, strategy: side ? STRATEGIES[side] : "" }));
}

function isFolder(path: string): boolean {
  return path === "" || path.endsWith("/");
}

/** Returns the side of the longest of the paths that match. */
function longest<S>(sides: ReadonlyMap<string, S>, matches: (path: string) => boolean): readonly [S, string] | undefined {
  let innermost: readonly [S, string] | undefined;
  for (const [path, side] of sides)
    if (matches(path) && (!innermost || path.length > innermost[1].length)) innermost = [side, path];
  return innermost;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // a damaged link; its other decisions hold
  }
}
