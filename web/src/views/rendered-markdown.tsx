/** Markdown of the lake as a page: links lead within the lake, pictures come from nowhere else. */
import { useEffect, useRef } from "preact/hooks";
import { openObject } from "../api/object-bytes";
import { linkTarget } from "../model/markdown-links";
import { imageType } from "../model/previews";
import { folders } from "../model/text";
import { Failure, Waiting } from "../parts/basics";
import { href, visit } from "../parts/navigation";
import { useResource } from "../parts/resource";

const MOST_IMAGE_BYTES = 8 << 20;
/** Pictures beyond are shown as their words: each is two requests. */
const MOST_IMAGES = 100;
const IMAGE = "data-image";
const LINK = "data-link";

interface MarkdownProps {
  readonly repository: string;
  readonly gitRef: string;
  /** The file's own path: links are relative to its folder. */
  readonly path: string;
  readonly text: string;
}

/** Draws Markdown once its parser is loaded, unless that takes too long. */
export function Markdown({ repository, gitRef, path, text }: MarkdownProps) {
  const parser = useResource("markdown", () => import("./markdown"));
  const element = useRef<HTMLDivElement>(null);
  const tools = parser.value;
  const contents = useResource(tools ? [repository, gitRef, path, text].join("\n") : null, async (signal) =>
    tools?.markdownContents(text, (node) => finish(node, repository, gitRef, path), signal),
  );
  const drawn = contents.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the contents are those of the place and the text.
  useEffect(() => {
    if (!drawn) return undefined;
    const abort = new AbortController();
    const urls: string[] = [];
    const pictures = [...drawn.querySelectorAll("img")];
    element.current?.replaceChildren(drawn);
    for (const [index, picture] of pictures.entries()) {
      const target = picture.getAttribute(IMAGE);
      if (target === null || index >= MOST_IMAGES) {
        picture.replaceWith(picture.alt);
        continue;
      }
      pictureUrl(repository, gitRef, target, abort.signal).then(
        (url) => {
          urls.push(url);
          picture.src = url;
        },
        () => picture.replaceWith(picture.alt || target), // the words that stand for the picture
      );
    }
    return () => {
      abort.abort();
      for (const url of urls) URL.revokeObjectURL(url);
    };
  }, [drawn]);
  const follow = (event: MouseEvent) => {
    const link = (event.target as Element).closest(`a[${LINK}]`);
    if (
      !(link instanceof HTMLAnchorElement) ||
      event.button ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    event.preventDefault();
    visit(link.href);
  };
  if (parser.error !== undefined) return <Failure error={parser.error} retry={parser.reload} />;
  if (contents.error !== undefined) return <Failure error={contents.error} />;
  if (!drawn) return <Waiting>Drawing the text…</Waiting>;
  // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/noStaticElementInteractions: only clicks on its links do something.
  return <div class="markdown" ref={element} onClick={follow} />;
}

/** Sets where a link or a picture leads: to the same ref of the lake or, a link only, to a page elsewhere. */
function finish(element: Element, repository: string, ref: string, path: string): void {
  const [, folder] = folders(path).at(-1) ?? ["", ""];
  if (element.tagName === "IMG") {
    const target = linkTarget(element.getAttribute("src") ?? "", folder);
    element.removeAttribute("src");
    if (target.kind === "object") element.setAttribute(IMAGE, target.path);
  } else if (element.tagName === "A") {
    const target = linkTarget(element.getAttribute("href") ?? "", folder);
    element.removeAttribute("href");
    if (target.kind === "nothing") return;
    if (target.kind === "elsewhere") {
      element.setAttribute("href", target.url);
      element.setAttribute("rel", "noopener noreferrer");
      return;
    }
    const screen = target.kind === "folder" ? "objects" : "object";
    element.setAttribute("href", href({ screen, repository, query: { ref, path: target.path } }));
    element.setAttribute(LINK, "");
  }
}

async function pictureUrl(repository: string, ref: string, path: string, signal: AbortSignal): Promise<string> {
  const bytes = await openObject({ repository, ref, path }, signal);
  const type = imageType(path, bytes.stats.content_type ?? "");
  if (!type || bytes.byteLength > MOST_IMAGE_BYTES) throw new Error("no picture of at most 8 MiB");
  return URL.createObjectURL(await bytes.blob(type));
}
