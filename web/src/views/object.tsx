/** An object: what it looks like, its history and details. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ObjectBytes, objectUrl, openObject } from "../api/object-bytes";
import type { Address } from "../model/addresses";
import { previewKind } from "../model/previews";
import { size } from "../model/text";
import { Failure, Name, Waiting, When } from "../parts/basics";
import { Link, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import "./object.css";
import { Details } from "./object-details";
import { ObjectHistory } from "./object-history";
import { Preview } from "./preview";
import { InRefBar } from "./ref-bar";
import { useShownRef } from "./shown-ref";
import { UseIt } from "./use-it";

/** A tab, and whether it is for Parquet files only. */
const TABS: readonly (readonly [name: string, title: string, parquetOnly: boolean])[] = [
  ["preview", "Preview", false],
  ["schema", "Schema", true],
  ["history", "History", false],
  ["details", "Details", false],
];

/** What an address of lakeFS's own pages calls a tab. */
const ALIASES: Readonly<Record<string, string>> = { blame: "history", info: "details" };

/** The object at `path`. */
export function ObjectScreen({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const path = query.path ?? "";
  const { ref, error } = useShownRef();
  useTitle(path.slice(path.lastIndexOf("/") + 1), repository);
  const object = useResource(ref === null ? null : JSON.stringify([repository, ref, path]), (signal) =>
    openObject({ repository, ref: ref ?? "", path }, signal),
  );
  const failure = error ?? object.error;
  if (failure !== undefined) {
    return (
      <main>
        <Failure error={failure} retry={object.reload} />
      </main>
    );
  }
  if (!object.value || ref === null) return <Waiting>Loading the object…</Waiting>;
  return <Opened key={`${ref} ${path}`} object={object.value} tab={query.tab ?? ""} />;
}

function Opened({ object, tab: asked }: { readonly object: ObjectBytes; readonly tab: string }) {
  const { repository, ref, path } = object.place;
  const { stats } = object;
  const kind = previewKind(path, stats.content_type ?? "");
  const tabs = TABS.filter(([, , parquetOnly]) => !parquetOnly || kind === "parquet");
  const [tab] = tabs.find(([name]) => name === (ALIASES[asked] ?? asked)) ?? tabs[0] ?? ["preview"];
  const [summary, setSummary] = useState("");
  const isParquet = kind === "parquet" && (tab === "preview" || tab === "schema");
  return (
    <main class="object">
      <InRefBar>
        <UseIt place={{ repository, ref, path, kind: "object" }} />
      </InRefBar>
      <h1 class="unseen">
        <Name text={path} />
      </h1>
      <div class="heading">
        <p class="totals">
          {size(object.byteLength)}
          {summary && ` · ${summary}`} · written <When time={stats.mtime} />
        </p>
        <a class="button" href={objectUrl(object.place)} download={path.slice(path.lastIndexOf("/") + 1)}>
          Download
        </a>
      </div>
      <nav class="tabs" aria-label="Views of the object">
        {tabs.map(([name, title]) => (
          <Link
            key={name}
            to={{ screen: "object", repository, query: { ref, path, tab: name === "preview" ? "" : name } }}
            aria-current={name === tab ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </nav>
      {tab === "history" && <ObjectHistory place={object.place} />}
      {tab === "details" && <Details object={object} />}
      {tab === "preview" && !isParquet && <Preview object={object} kind={kind} />}
      {isParquet && <LateParquet object={object} view={tab === "schema" ? "schema" : "rows"} summarize={setSummary} />}
    </main>
  );
}

interface ParquetProps {
  readonly object: ObjectBytes;
  readonly view: "rows" | "schema";
  readonly summarize: (summary: string) => void;
}

/** Draws a Parquet file once its reader is loaded. */
function LateParquet(props: ParquetProps) {
  const [loaded, setLoaded] = useState<{ readonly component?: ComponentType<ParquetProps>; readonly error?: unknown }>({});
  useEffect(() => {
    import("./parquet").then(
      (module) => setLoaded({ component: module.Parquet }),
      (error: unknown) => setLoaded({ error }),
    );
  }, []);
  if (loaded.error !== undefined) return <Failure error={loaded.error} />;
  return loaded.component ? <loaded.component {...props} /> : <Waiting>Loading the reader of Parquet…</Waiting>;
}
