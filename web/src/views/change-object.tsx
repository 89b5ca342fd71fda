/** One changed object: both sides' properties, and their contents beside one another. */
import { useId } from "preact/hooks";
import { requestBytes } from "../api/client";
import { objectUrl, statObject } from "../api/endpoints";
import { ApiError } from "../api/errors";
import type { ObjectStats } from "../api/schema";
import { isTable, rowsCommand } from "../model/changes";
import { compareLines, linesOf, type NumberedLine, withContext } from "../model/lines";
import { rowFormat } from "../model/row-limits";
import { count, size } from "../model/text";
import { Code, Failure, Waiting, When } from "../parts/basics";
import { address, Link, setQuery } from "../parts/navigation";
import { useResource } from "../parts/resource";
import type { ChangeSource } from "./change-source";
import { RowChange, type RowSide } from "./row-change";

const MOST_TEXT = 256 * 1024;
const MOST_LINES = 2000;

interface Side {
  readonly ref: string;
  readonly stats: ObjectStats;
}

interface ObjectProps {
  readonly source: ChangeSource;
  readonly path: string;
  /** The side that is known to have no object. */
  readonly without?: "left" | "right" | undefined;
  /** What the two sides are called. */
  readonly titles?: readonly [left: string, right: string];
}

/** What happened to the object at `path`. */
export function ObjectChange({ source, path, without, titles = ["Before", "After"] }: ObjectProps) {
  const { repository, left, right } = source;
  const sides = useResource(JSON.stringify([source.key, path, without]), (signal) =>
    Promise.all([
      left === null || without === "left" ? null : sideOf(repository, left, path, signal),
      without === "right" ? null : sideOf(repository, right, path, signal),
    ]),
  );
  if (sides.error !== undefined) return <Failure error={sides.error} retry={sides.reload} />;
  if (!sides.value) return <Waiting>Loading the object…</Waiting>;
  const [before, after] = sides.value;
  return (
    <div class="object-change">
      <div class="sides">
        <SideFacts title={titles[0]} repository={repository} path={path} side={before} />
        <SideFacts title={titles[1]} repository={repository} path={path} side={after} />
      </div>
      <Contents
        repository={repository}
        path={path}
        before={before}
        after={after}
        committed={source.committed}
        titles={titles}
      />
    </div>
  );
}

async function sideOf(repository: string, ref: string, path: string, signal: AbortSignal): Promise<Side | null> {
  try {
    return { ref, stats: await statObject(repository, ref, path, {}, signal) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function SideFacts({
  title,
  repository,
  path,
  side,
}: {
  readonly title: string;
  readonly repository: string;
  readonly path: string;
  readonly side: Side | null;
}) {
  if (!side) return <p class="facts hint">{title}: no object</p>;
  const { stats, ref } = side;
  return (
    <p class="facts">
      <Link to={{ screen: "object", repository, query: { ref, path } }}>{title}</Link>: {size(stats.size_bytes ?? 0)},{" "}
      {stats.content_type}, written <When time={stats.mtime} />
      <span class="id checksum">{stats.checksum}</span>
    </p>
  );
}

interface Both {
  readonly repository: string;
  readonly path: string;
  readonly before: Side | null;
  readonly after: Side | null;
}

function Contents(props: Both & { readonly committed: boolean; readonly titles: readonly [string, string] }) {
  const { repository, path, before, after, committed, titles } = props;
  if (before?.stats.checksum === after?.stats.checksum && before?.stats.size_bytes === after?.stats.size_bytes) {
    return <p class="hint">The bytes are the same; other properties differ.</p>;
  }
  if (isImage(path, after ?? before)) {
    return (
      <div class="sides">
        {[before, after].map((side, number) => (
          <div key={number}>
            {side && <img class="picture" alt={number ? "after" : "before"} src={objectUrl(repository, side.ref, path)} />}
          </div>
        ))}
      </div>
    );
  }
  const format = rowFormat(path);
  if (format && before && after) {
    const asLines = format === "csv" && address.value.query.rows === "0";
    const sides = [sideOfRows(before, titles[0]), sideOfRows(after, titles[1])] as const;
    return (
      <>
        {format === "csv" && <Choice lines={asLines} />}
        {asLines ? (
          <TextContents {...props} />
        ) : (
          <RowChange repository={repository} path={path} format={format} sides={sides} committed={committed} />
        )}
      </>
    );
  }
  return (
    <>
      <TextContents {...props} />
      {committed && isTable(path) && before && after && (
        <>
          <p class="hint">Its rows are compared by:</p>
          <Code text={rowsCommand(repository, before.ref, after.ref, path)} />
        </>
      )}
    </>
  );
}

function sideOfRows({ ref, stats }: Side, title: string): RowSide {
  return { ref, bytes: stats.size_bytes ?? 0, checksum: stats.checksum, title };
}

/** How a table in text is compared. */
function Choice({ lines }: { readonly lines: boolean }) {
  const name = useId();
  const choice = (rows: string, chosen: boolean, title: string) => (
    <label>
      <input type="radio" name={name} checked={chosen} onChange={() => setQuery({ rows }, true)} /> {title}
    </label>
  );
  return (
    <fieldset class="take compare-as">
      <legend class="unseen">Compare as</legend>
      {choice("", !lines, "Rows")}
      {choice("0", lines, "Lines")}
    </fieldset>
  );
}

function TextContents({ repository, path, before, after }: Both) {
  const most = Math.max(before?.stats.size_bytes ?? 0, after?.stats.size_bytes ?? 0);
  if (most > MOST_TEXT) {
    return (
      <p class="hint">
        {size(most)} on one side; the page compares texts of at most {size(MOST_TEXT)}.
      </p>
    );
  }
  return <Texts repository={repository} path={path} before={before} after={after} />;
}

function isImage(path: string, side: Side | null): boolean {
  return /^image\//.test(side?.stats.content_type ?? "") || /\.(png|jpe?g|gif|webp|avif|svg|bmp|ico)$/i.test(path);
}

function Texts({ repository, path, before, after }: Both) {
  const texts = useResource(JSON.stringify([before?.stats.checksum, after?.stats.checksum, path]), (signal) =>
    Promise.all([before, after].map((side) => (side ? textOf(objectUrl(repository, side.ref, path), signal) : ""))),
  );
  if (texts.error !== undefined) return <Failure error={texts.error} retry={texts.reload} />;
  if (!texts.value) return <Waiting>Loading the contents…</Waiting>;
  const [left, right] = texts.value;
  if (left === null || right === null || left === undefined || right === undefined) {
    return <p class="hint">These are not texts in UTF-8; sizes and checksums are all there is to compare.</p>;
  }
  return <Lines left={linesOf(left)} right={linesOf(right)} />;
}

/** Returns an object's text; `null` if it is not one in UTF-8. */
async function textOf(url: string, signal: AbortSignal): Promise<string | null> {
  const bytes = await (await requestBytes(url, { signal })).arrayBuffer();
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\u0000") ? null : text;
  } catch (error) {
    if (error instanceof TypeError) return null; // the decoder's word for bytes that are not UTF-8
    throw error;
  }
}

function Lines({ left, right }: { readonly left: readonly string[]; readonly right: readonly string[] }) {
  const parts = withContext(compareLines(left, right));
  let room = MOST_LINES;
  const rows = parts.flatMap(({ skipped, hunk }, part) => {
    const pairs = hunk.pairs.slice(0, Math.max(0, room));
    room -= hunk.pairs.length;
    return [
      skipped > 0 && (
        <tr key={`skipped ${part}`} class="skipped">
          <td colSpan={4}>{count(skipped)} equal lines</td>
        </tr>
      ),
      ...pairs.map((pair, number) => (
        <tr key={`${part} ${number}`}>
          <Line line={pair.left} kind={hunk.equal ? "" : "removed"} />
          <Line line={pair.right} kind={hunk.equal ? "" : "added"} />
        </tr>
      )),
    ];
  });
  if (!parts.some(({ hunk }) => !hunk.equal)) return <p class="hint">Only the end of the last line differs.</p>;
  return (
    <div class="lines">
      <table aria-label="Lines that differ">
        <tbody>{rows}</tbody>
      </table>
      {room < 0 && <p class="hint">{count(-room)} more lines are not shown.</p>}
    </div>
  );
}

function Line({ line, kind }: { readonly line: NumberedLine | undefined; readonly kind: "" | "added" | "removed" }) {
  const sign = kind === "added" ? "+" : kind === "removed" ? "−" : "";
  return (
    <>
      <td class="line-number">{line?.number}</td>
      <td class={line ? `line ${kind}` : "line"}>
        {line && (
          <>
            <span class="sign">{sign}</span>
            {line.text}
          </>
        )}
      </td>
    </>
  );
}
