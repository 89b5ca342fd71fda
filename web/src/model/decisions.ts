/** Which side of a conflict a merge takes, by path or folder, as the address keeps it. */
import type { PrefixStrategy } from "../api/schema";

/** The two ways to decide. */
export type Side = "source" | "destination";

/** Decisions by prefix; as in a merge, the longest that matches a path decides it. */
export type Decisions = ReadonlyMap<string, Side>;

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

/** Returns the decision for a path, with the prefix that decides; `undefined` where none does. */
export function decisionFor(decisions: Decisions, path: string): readonly [side: Side, prefix: string] | undefined {
  let longest: readonly [Side, string] | undefined;
  for (const [prefix, side] of decisions) {
    if (path.startsWith(prefix) && (!longest || prefix.length > longest[1].length)) longest = [side, prefix];
  }
  return longest;
}

/**
 * Returns decisions with one more for a prefix; `undefined` takes it back. A decision for a folder replaces those for what is in it.
 */
export function decide(decisions: Decisions, prefix: string, side: Side | undefined): Decisions {
  const folder = prefix === "" || prefix.endsWith("/");
  const rest = [...decisions].filter(([other]) => (folder ? !other.startsWith(prefix) : other !== prefix));
  return new Map(side ? [...rest, [prefix, side]] : rest);
}

/** Returns the decisions as a merge's `strategies`. */
export function strategiesOf(decisions: Decisions): PrefixStrategy[] {
  return [...decisions].map(([prefix, side]) => ({ prefix, strategy: side === "source" ? "source-wins" : "dest-wins" }));
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // a damaged link; its other decisions hold
  }
}
