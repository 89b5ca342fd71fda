/**
 * The addresses of the page: each screen and its state, as a value. They are those of lakeFS's own pages, so links go on working.
 *
 * Paths here are below the shell's `<base>` and begin without a slash; names are percent-encoded by segment.
 */

export type Screen =
  | "repositories"
  | "objects"
  | "object"
  | "commits"
  | "commit"
  | "branches"
  | "tags"
  | "revert"
  | "compare"
  | "reflog"
  | "uncommitted"
  | "login"
  | "credentials"
  | "absent";

/** A screen with its subject and its query. `subject` is a commit's ID or a branch's name, where the path has one. */
export interface Address {
  readonly screen: Screen;
  readonly repository: string;
  readonly subject: string;
  readonly query: Readonly<Record<string, string>>;
}

const SCREENS_OF_REPOSITORIES: readonly Screen[] = [
  "objects",
  "object",
  "commits",
  "branches",
  "tags",
  "compare",
  "reflog",
  "uncommitted",
];

/** Returns the address of a path below the base, such as `repositories/sales/objects`, and a query with or without its `?`. */
export function parseAddress(path: string, search: string): Address {
  const query = Object.fromEntries(new URLSearchParams(search));
  const segments = path
    .replace(/^\/+|\/+$/g, "")
    .split("/")
    .map(decoded);
  const address = (screen: Screen, repository = "", subject = ""): Address => ({ screen, repository, subject, query });
  const [top, name, screen, subject, verb] = segments;
  if (!top || (top === "repositories" && !name)) return address("repositories");
  if (top === "auth")
    return address(name === "login" ? "login" : name === "credentials" || name === "users" ? "credentials" : "absent");
  if (top === "setup") return address("login");
  if (top !== "repositories" || !name) return address("absent");
  if (!screen) return address("objects", name);
  if (screen === "commits" && subject) return address("commit", name, subject);
  if (screen === "branches" && subject && verb === "revert") return address("revert", name, subject);
  const known = SCREENS_OF_REPOSITORIES.find((candidate) => candidate === screen);
  return known && !subject ? address(known, name) : address("absent", name);
}

/** Returns the path and query of an address; parameters without a value are left out. */
export function formatAddress(address: Pick<Address, "screen"> & Partial<Address>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(address.query ?? {})) if (value) query.set(name, value);
  const suffix = query.size ? `?${query}` : "";
  return pathOf(address) + suffix;
}

function pathOf({ screen, repository = "", subject = "" }: Pick<Address, "screen"> & Partial<Address>): string {
  const root = `repositories/${encodeURIComponent(repository)}`;
  switch (screen) {
    case "repositories":
      return "repositories";
    case "login":
    case "credentials":
      return `auth/${screen}`;
    case "commit":
      return `${root}/commits/${encodeURIComponent(subject)}`;
    case "revert":
      return `${root}/branches/${encodeURIComponent(subject)}/revert`;
    case "absent":
      return "";
    default:
      return `${root}/${screen}`;
  }
}

/**
 * Returns a path of this origin to go to after a sign-in, or the empty string: `next` must begin with exactly one slash, also once the
 * browser has resolved its dots.
 */
export function safeNext(next: string): string {
  const isPath = /^\/(?![/\\])[^\\\u0000-\u001f]*$/.test(next);
  return isPath && !new URL(next, "http://localhost").pathname.startsWith("//") ? next : "";
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // not percent-encoding; the name is what was typed
  }
}
