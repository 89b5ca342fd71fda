/** Markdown, parsed and sanitised. Loaded with the first README: it carries the sanitiser, and its worker the parser. */
import DOMPurify from "dompurify";
import { answerOf, startWorker } from "../parts/workers";
import parser from "./markdown-worker?worker&url";

const MOST_MILLISECONDS = 5_000;
/** Bounds of what a browser lays out at once: nested tables take time with the square of their depth. */
const MOST_TAGS = 20_000;
const MOST_DEPTH = 60;

/**
 * Returns the contents of a Markdown text. Nothing in them runs or loads; `finish` is called with every element that is left. Throws a
 * sentence if the text is too deeply nested, too large, or takes too long.
 */
export async function markdownContents(
  text: string,
  finish: (element: Element) => void,
  signal: AbortSignal,
): Promise<DocumentFragment> {
  try {
    const html = await answerOf<string>(startWorker(parser), text, MOST_MILLISECONDS, signal);
    if (html.split("<", MOST_TAGS + 1).length > MOST_TAGS) throw new Error("too many elements");
    const contents = sanitized(html, finish);
    if (depth(contents) > MOST_DEPTH) throw new Error("too deeply nested");
    return contents;
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Error("This Markdown is too much for the page to draw. Open the object, and read it as it is written.", {
      cause: error,
    });
  }
}

function sanitized(html: string, finish: (element: Element) => void): DocumentFragment {
  DOMPurify.addHook("afterSanitizeAttributes", finish);
  try {
    return DOMPurify.sanitize(html, {
      USE_PROFILES: { html: true },
      FORBID_TAGS: "style form input button textarea select video audio source picture dialog map area".split(" "),
      FORBID_ATTR: "style class id name srcset background tabindex accesskey target is".split(" "),
      ALLOW_DATA_ATTR: false,
      ALLOW_ARIA_ATTR: false,
      RETURN_DOM_FRAGMENT: true,
    });
  } finally {
    DOMPurify.removeAllHooks();
  }
}

/** Returns the number of elements within one another at the deepest place. */
function depth(contents: DocumentFragment): number {
  const depths = new Map<Node | null, number>();
  let deepest = 0;
  for (const element of contents.querySelectorAll("*")) {
    const own = (depths.get(element.parentNode) ?? 0) + 1;
    depths.set(element, own);
    deepest = Math.max(deepest, own);
  }
  return deepest;
}
