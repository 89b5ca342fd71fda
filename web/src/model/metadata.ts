/** Metadata as lines of `name=value`, as a form takes them. */

/** Returns the metadata of lines; empty lines count for nothing. Throws an `Error` that names the line without a name or `=`. */
export function parseMetadata(text: string): Readonly<Record<string, string>> {
  const metadata: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const place = line.indexOf("=");
    const name = line.slice(0, place).trim();
    if (place < 0 || !name) throw new Error(`“${line.trim()}” is not metadata; write a line like source=etl`);
    metadata[name] = line.slice(place + 1).trim();
  }
  return metadata;
}
