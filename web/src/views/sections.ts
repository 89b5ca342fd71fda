/** The sections of a repository. */
import type { Screen } from "../model/addresses";

/** A section: its first screen, its title, all its screens, and the key that follows `g`. */
export interface Section {
  readonly screen: Screen;
  readonly title: string;
  readonly includes: readonly Screen[];
  readonly key: string;
}

/** The sections, in the order of the bar. */
export const SECTIONS: readonly Section[] = [
  { screen: "objects", title: "Data", includes: ["objects", "object"], key: "d" },
  { screen: "commits", title: "History", includes: ["commits", "commit"], key: "h" },
  { screen: "uncommitted", title: "Changes", includes: ["uncommitted"], key: "c" },
  { screen: "compare", title: "Compare", includes: ["compare"], key: "m" },
  { screen: "branches", title: "Branches", includes: ["branches", "revert", "reflog"], key: "b" },
  { screen: "tags", title: "Tags", includes: ["tags"], key: "t" },
];
