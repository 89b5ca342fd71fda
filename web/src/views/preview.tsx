/** Previews of text, CSV, JSON, Markdown and pictures. Nothing of an object is ever run: HTML is text, SVG a picture. */
import { useEffect, useState } from "preact/hooks";
import type { ObjectBytes } from "../api/object-bytes";
import { type CsvTable, parseCsv } from "../model/csv";
import { decodeText, hexDump, imageType, MOST_TEXT_BYTES, type PreviewKind, prettyJson } from "../model/previews";
import { count, counted, size, visible } from "../model/text";
import { Failure, Waiting } from "../parts/basics";
import { useResource } from "../parts/resource";
import { Table } from "../parts/table";
import { Markdown } from "./rendered-markdown";

const MOST_IMAGE_BYTES = 32 << 20;
const FIRST_BYTES = 512;
const LONGEST_LINE = 10_000;

/** Shows the beginning of an object. */
export function Preview({ object, kind }: { readonly object: ObjectBytes; readonly kind: PreviewKind }) {
  if (!object.byteLength) return <p>This object has no bytes.</p>;
  if (kind === "image") return <Picture object={object} />;
  return <TextPreview object={object} kind={kind} />;
}

function Picture({ object }: { readonly object: ObjectBytes }) {
  const type = imageType(object.place.path, object.stats.content_type ?? "");
  const large = object.byteLength > MOST_IMAGE_BYTES;
  const picture = useResource(large ? null : JSON.stringify(object.place), () => object.blob(type));
  const [url, setUrl] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    if (!picture.value) return;
    const made = URL.createObjectURL(picture.value);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [picture.value]);
  if (large)
    return (
      <p>
        This picture has {size(object.byteLength)}; the page shows up to {size(MOST_IMAGE_BYTES)}. Download it.
      </p>
    );
  if (picture.error !== undefined) return <Failure error={picture.error} retry={picture.reload} />;
  if (!url) return <Waiting>Loading the picture…</Waiting>;
  if (broken) return <Bytes object={object} sentence={`The browser cannot draw this as ${type}.`} />;
  return <img class="picture" src={url} alt={visible(object.place.path)} onError={() => setBroken(true)} />;
}

function TextPreview({ object, kind }: { readonly object: ObjectBytes; readonly kind: PreviewKind }) {
  const first = useResource(JSON.stringify(object.place), async () => {
    const bytes = new Uint8Array(await object.slice(0, MOST_TEXT_BYTES));
    return decodeText(bytes, object.byteLength);
  });
  const [plain, setPlain] = useState(false);
  if (first.error !== undefined) return <Failure error={first.error} retry={first.reload} />;
  if (!first.value) return <Waiting>Loading the beginning of the object…</Waiting>;
  const { text, binary, whole } = first.value;
  if (binary) return <Bytes object={object} sentence="This object is no text that the page knows." />;
  const drawn = kind === "csv" || kind === "markdown" || kind === "json";
  return (
    <>
      {drawn && (
        <label class="choice">
          <input type="checkbox" checked={plain} onChange={(event) => setPlain(event.currentTarget.checked)} /> As it is written
        </label>
      )}
      {!whole && (
        <p class="hint">
          The first {size(MOST_TEXT_BYTES)} of {size(object.byteLength)}.
        </p>
      )}
      {plain || !drawn ? <Lines text={text} /> : <Drawn object={object} kind={kind} text={text} whole={whole} />}
    </>
  );
}

interface DrawnProps {
  readonly object: ObjectBytes;
  readonly kind: PreviewKind;
  readonly text: string;
  readonly whole: boolean;
}

function Drawn({ object, kind, text, whole }: DrawnProps) {
  const { repository, ref, path } = object.place;
  if (kind === "markdown") return <Markdown repository={repository} gitRef={ref} path={path} text={text} />;
  if (kind === "csv") return <CsvRows table={parseCsv(text, whole)} />;
  const pretty = whole ? prettyJson(text) : undefined;
  return (
    <>
      {whole && pretty === undefined && <p class="hint">This is no valid JSON.</p>}
      <Lines text={pretty ?? text} />
    </>
  );
}

function CsvRows({ table }: { readonly table: CsvTable }) {
  const columns = table.header.map((title, index) => ({ title: <bdi key={index}>{visible(title)}</bdi> }));
  return (
    <>
      <p class="hint">
        {table.more ? `The first ${counted(table.rows.length, "row")}` : counted(table.rows.length, "row")} of{" "}
        {counted(table.columns, "column")}
        {table.columns > table.header.length && `, ${count(table.header.length)} of them shown`}.
      </p>
      <div class="scrolls">
        <Table
          label="Rows"
          columns={columns}
          rows={table.rows.length}
          row={(number) => ({
            key: String(number),
            cells: (table.rows[number] ?? []).map((cell, index) => <bdi key={index}>{visible(cell)}</bdi>),
          })}
        />
      </div>
    </>
  );
}

/** Lines of text; a line that is longer than a page can lay out is cut, and says so. */
function Lines({ text }: { readonly text: string }) {
  const lines = text.split("\n").map((line) => {
    const shown = visible(line.replace(/\r$/, "").replaceAll("\t", "  "));
    return shown.length > LONGEST_LINE ? `${shown.slice(0, LONGEST_LINE)}… (${count(line.length)} characters)` : shown;
  });
  if (lines.at(-1) === "") lines.pop();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it.
    <pre class="lines" tabIndex={0}>
      {lines.join("\n")}
    </pre>
  );
}

function Bytes({ object, sentence }: { readonly object: ObjectBytes; readonly sentence: string }) {
  const first = useResource(JSON.stringify(object.place), async () => new Uint8Array(await object.slice(0, FIRST_BYTES)));
  return (
    <>
      <p>
        {sentence} It has {size(object.byteLength)} of the type <bdi>{object.stats.content_type}</bdi>. Its first bytes:
      </p>
      {first.error !== undefined && <Failure error={first.error} retry={first.reload} />}
      {first.value && <pre class="lines">{hexDump(first.value)}</pre>}
    </>
  );
}
