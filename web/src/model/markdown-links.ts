/** Where links of a Markdown file in the lake lead. */

/** An object or folder of the lake, a page elsewhere, or nothing that may be followed. */
export type LinkTarget =
  | { readonly kind: "object" | "folder"; readonly path: string }
  | { readonly kind: "elsewhere"; readonly url: string }
  | { readonly kind: "nothing" };

const NOTHING: LinkTarget = { kind: "nothing" };

/** Returns the target of a link in a file of a folder: paths are of the same ref, those that begin with a slash from its top. */
export function linkTarget(link: string, folder: string): LinkTarget {
  const trimmed = link.trim();
  if (/^(https?|mailto):/i.test(trimmed)) return { kind: "elsewhere", url: trimmed };
  if (!trimmed || /^[a-z][a-z0-9+.-]*:|^[/\\]{2}|^#/i.test(trimmed) || /[\u0000-\u001f]/.test(trimmed)) return NOTHING;
  const path = decoded(trimmed.replace(/[?#].*$/s, ""));
  if (!path) return NOTHING;
  const resolved = resolve(path.startsWith("/") ? path.slice(1) : folder + path);
  if (resolved === undefined) return NOTHING;
  return { kind: resolved === "" || resolved.endsWith("/") ? "folder" : "object", path: resolved };
}

function resolve(path: string): string | undefined {
  const segments = path.split("/");
  const last = segments.at(-1);
  if (last === "." || last === "..") segments.push("");
  const resolved: string[] = [];
  for (const segment of segments) {
    if (segment === ".") continue;
    if (segment !== "..") resolved.push(segment);
    else if (resolved.pop() === undefined) return undefined;
  }
  return resolved.join("/");
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // not percent-encoding; the path is what was written
  }
}
