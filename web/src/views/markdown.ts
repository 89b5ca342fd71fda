/** Markdown, parsed and sanitised. Loaded with the first README: it carries both libraries, and nothing else. */
import DOMPurify from "dompurify";
import { Marked } from "marked";

const markdown = new Marked({
  gfm: true,
  renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ ") },
});

/** Returns the contents of a Markdown text. Nothing in them runs or loads; `finish` is called with every element that is left. */
export function markdownContents(text: string, finish: (element: Element) => void): DocumentFragment {
  DOMPurify.addHook("afterSanitizeAttributes", finish);
  try {
    return DOMPurify.sanitize(markdown.parse(text, { async: false }), {
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
