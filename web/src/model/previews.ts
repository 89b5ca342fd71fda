/** What a preview shows of an object, by its name, its type and its first bytes. */

/** How much of a text a preview reads, in bytes. */
export const MOST_TEXT_BYTES = 1 << 20;

export type PreviewKind = "parquet" | "csv" | "json" | "markdown" | "image" | "text" | "binary";

const IMAGES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  bmp: "image/bmp",
  ico: "image/x-icon",
  svg: "image/svg+xml",
};
const IMAGE_TYPES = new Set(Object.values(IMAGES));

const KINDS: Readonly<Record<string, PreviewKind>> = {
  parquet: "parquet",
  parq: "parquet",
  csv: "csv",
  tsv: "csv",
  json: "json",
  geojson: "json",
  md: "markdown",
  markdown: "markdown",
};

function extensionOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
}

/** Returns the media type that a picture may be drawn with; empty for what is none. */
export function imageType(path: string, contentType: string): string {
  const declared = contentType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  return IMAGES[extensionOf(path)] ?? (IMAGE_TYPES.has(declared) ? declared : "");
}

/** Returns how an object is previewed, before any of its bytes are read. What is no other kind may still turn out to be binary. */
export function previewKind(path: string, contentType: string): PreviewKind {
  const kind = KINDS[extensionOf(path)];
  if (kind) return kind;
  if (imageType(path, contentType)) return "image";
  if (/^application\/(vnd\.apache\.)?(x-)?parquet\b/i.test(contentType)) return "parquet";
  if (/^text\/csv\b/i.test(contentType)) return "csv";
  if (/^application\/json\b/i.test(contentType)) return "json";
  return "text";
}

/** Text of the first bytes of an object. `binary` if they are no UTF-8 text; `whole` if there are no more. */
export interface DecodedText {
  readonly text: string;
  readonly binary: boolean;
  readonly whole: boolean;
}

/** Decodes the first bytes of an object that has `size` of them. A character that the end cuts is left out. */
export function decodeText(bytes: Uint8Array, size: number): DecodedText {
  const whole = bytes.length >= size;
  const text = new TextDecoder("utf-8", { fatal: false }).decode(bytes, { stream: !whole });
  const replaced = text.split("\ufffd").length - 1;
  return { text, binary: bytes.includes(0) || replaced > text.length / 100, whole };
}

/** Returns bytes as lines of sixteen: offset, hexadecimal digits, printable characters. */
export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let start = 0; start < bytes.length; start += 16) {
    const row = [...bytes.subarray(start, start + 16)];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const characters = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${start.toString(16).padStart(8, "0")}  ${digits.padEnd(47)}  ${characters}`);
  }
  return lines.join("\n");
}

/** Returns JSON with indentation; undefined for what is none, such as the beginning of a longer text. Numbers keep their digits. */
export function prettyJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return indented(text);
}

const DEEPEST_INDENT = 40;

/** Indents valid JSON without parsing its values: `JSON.parse` would round large numbers and drop repeated names. */
function indented(json: string): string {
  const parts: string[] = [];
  let depth = 0;
  let opened = false;
  const newline = () => `\n${"  ".repeat(Math.min(depth, DEEPEST_INDENT))}`;
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (opened !== closes) parts.push(opened || closes ? newline() : "");
    opened = token === "{" || token === "[";
    if (opened) depth += 1;
    parts.push(token === ":" ? ": " : token);
    if (token === ",") parts.push(newline());
  }
  return parts.join("");
}
