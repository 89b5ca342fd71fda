/** The commits that changed one object, each with its size there. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { listWholeCommits, statObject, type WholeLog } from "../api/endpoints";
import { ApiError, isAbort, sentenceOf } from "../api/errors";
import type { ObjectPlace } from "../api/object-bytes";
import type { Commit } from "../api/schema";
import { size, sizeChange } from "../model/text";
import { CommitId, Failure, Name, Subject, Waiting, When } from "../parts/basics";
import { address, Link } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { ObjectChange } from "./change-object";
import { betweenRefs } from "./change-source";

const PAGE = 50;
const COLUMNS: readonly Column[] = [
  { title: "Message", kind: "name" },
  { title: "Size", kind: "number" },
  { title: "Change", kind: "number", wide: true },
  { title: "Author", wide: true },
  { title: "When", kind: "number" },
  { title: "Commit" },
  { title: <span class="unseen">Compare</span> },
];

/** An object's size at a commit: bytes, `null` where it was removed, or a sentence why it is not known. */
type SizeThere = number | null | string;

/** The history of a path. */
export function ObjectHistory({ place }: { readonly place: ObjectPlace }) {
  const { repository, ref, path } = place;
  const first = useResource(JSON.stringify(place), (signal) => page(place, undefined, signal));
  const [further, setFurther] = useState<readonly WholeLog[]>([]);
  const [error, setError] = useState<unknown>();
  const pages = first.value ? [first.value, ...further] : [];
  const commits = pages.flatMap((document) => document.results);
  const next = pages.at(-1)?.pagination.has_more ? pages.at(-1)?.pagination.next_offset : undefined;
  const more = useCallback(() => {
    if (next) page(place, next).then((document) => setFurther((before) => [...before, document]), setError);
  }, [place, next]);
  const sizes = useSizes(place, commits);
  if (first.error !== undefined) return <Failure error={first.error} retry={first.reload} />;
  if (!first.value) return <Waiting>Looking for the commits that changed this object…</Waiting>;
  if (!commits.length) return <p>No commit has this object yet: it is an uncommitted change.</p>;
  const { change = "" } = address.value.query;
  const opened = commits.findIndex(({ id }) => id === change);
  const [later, earlier] = [commits[opened], commits[opened + 1]];
  const row = (number: number): Row => {
    const commit = commits[number] as Commit;
    const here = sizes.of(commit.id);
    const before = commits[number + 1];
    const there = before ? sizes.of(before.id) : next ? undefined : null;
    return {
      key: commit.id,
      cells: [
        <Link key="message" to={{ screen: "object", repository, query: { ref: commit.id, path } }}>
          <Subject message={commit.message} />
        </Link>,
        <SizeOf key="size" value={here} />,
        changeText(here, there),
        <Name key="author" text={commit.committer} most={40} />,
        <When key="when" time={commit.creation_date} />,
        <CommitId key="id" repository={repository} id={commit.id} />,
        before && (
          <Link
            key="compare"
            to={{
              ...address.value,
              query: { ...address.value.query, change: number === opened ? "" : commit.id, rows: "", keys: "" },
            }}
            aria-expanded={number === opened}
          >
            Changes
          </Link>
        ),
      ],
    };
  };
  return (
    <>
      <Table
        label={`History of ${path} at ${ref}`}
        columns={COLUMNS}
        rows={commits.length}
        row={row}
        rest={sizes.show}
        detail={later && earlier && { row: opened, content: <VersionChange place={place} later={later} earlier={earlier} /> }}
      />
      {error !== undefined && <Failure error={error} />}
      {next && (
        <button type="button" onClick={more}>
          Earlier commits
        </button>
      )}
    </>
  );
}

interface VersionChangeProps {
  readonly place: ObjectPlace;
  readonly later: Commit;
  readonly earlier: Commit;
}

/** What a commit did to the object, compared with the version before it in its history. */
function VersionChange({ place: { repository, path }, later, earlier }: VersionChangeProps) {
  const source = useMemo(() => betweenRefs(repository, earlier.id, later.id), [repository, earlier.id, later.id]);
  return <ObjectChange source={source} path={path} />;
}

function SizeOf({ value }: { readonly value: SizeThere | undefined }) {
  if (typeof value === "string") return <span title={value}>–</span>;
  return <>{value === null ? "removed" : value === undefined ? "" : size(value)}</>;
}

function changeText(here: SizeThere | undefined, before: SizeThere | undefined): string {
  if (typeof here !== "number") return "";
  if (before === null) return "added";
  return typeof before === "number" ? sizeChange(here - before) : "";
}

function page({ repository, ref, path }: ObjectPlace, after?: string, signal?: AbortSignal): Promise<WholeLog> {
  return listWholeCommits(repository, ref, { objects: [path], amount: PAGE, after }, signal);
}

/** Asks for the object's size at the visible commits. */
function useSizes({ repository, path }: ObjectPlace, commits: readonly Commit[]) {
  const sizes = useRef(new Map<string, SizeThere>());
  const asked = useRef(new Set<string>());
  const shown = useRef(commits);
  shown.current = commits;
  const [, setRound] = useState(0);
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const show = useCallback(
    (first: number, end: number) => {
      // One more, for the change of the last visible one.
      for (const { id } of shown.current.slice(first, end + 1)) {
        if (asked.current.has(id)) continue;
        asked.current.add(id);
        const note = (value: SizeThere) => {
          sizes.current.set(id, value);
          setRound((round) => round + 1);
        };
        statObject(repository, id, path, {}, abort.current.signal).then(
          (stats) => note(stats.size_bytes ?? 0),
          (error: unknown) => {
            if (isAbort(error)) return;
            note(error instanceof ApiError && error.status === 404 ? null : sentenceOf(error));
          },
        );
      }
    },
    [repository, path],
  );
  return { of: (id: string) => sizes.current.get(id), show };
}
