/** The rows of a folder's table. What is not known yet leaves its cell empty. */
import { type Entry, isRemoved, type Marks, type SortColumn } from "../model/listing";
import { count, counted, size, subject } from "../model/text";
import { Name, Subject, When } from "../parts/basics";
import { Icon } from "../parts/icons";
import { Link } from "../parts/navigation";
import type { Column, Row } from "../parts/table";
import type { LastChange } from "./folder-last-changes";
import { knownRows } from "./row-counts";

const TITLES: readonly (readonly [by: SortColumn, title: string, column: Column])[] = [
  ["name", "Name", { title: "Name", kind: "name" }],
  ["size", "Size", { title: "Size", kind: "number" }],
  ["objects", "Objects", { title: "Objects", kind: "number", wide: true }],
];

/** Returns the columns, with buttons that sort by some of them. */
export function columnsOf(by: SortColumn, descending: boolean, choose: (by: SortColumn) => void): readonly Column[] {
  const sortable = TITLES.map(
    ([name, title, column]): Column => ({
      ...column,
      title: (
        <button type="button" class="quiet sort" onClick={() => choose(name)}>
          {title}
          {name === by && <span aria-hidden="true">{descending ? " ▾" : " ▴"}</span>}
        </button>
      ),
      sort: name === by ? (descending ? "descending" : "ascending") : undefined,
    }),
  );
  return [...sortable, { title: "Last change", wide: true }, { title: "When", kind: "number" }];
}

/** What a row shows beside its entry. */
export interface Beside {
  readonly repository: string;
  readonly ref: string;
  readonly failures: { readonly usage: string; readonly marks: string };
  readonly change: LastChange;
}

/** Returns the row of an entry. */
export function rowOf(entry: Entry, { repository, ref, change, failures }: Beside): Row {
  const removed = isRemoved(entry);
  const uncommitted = !entry.folder && entry.marks !== undefined;
  const target = { screen: entry.folder ? "objects" : "object", repository, query: { ref, path: entry.path } } as const;
  const name = <Name text={entry.name} most={200} />;
  return {
    key: entry.path,
    ...(removed ? { className: "gone" } : {}),
    cells: [
      <span key="name" class="entry">
        <Icon name={entry.folder ? "folder" : "file"} />
        {removed ? name : <Link to={target}>{name}</Link>}
        {entry.marks ? <MarksOf marks={entry.marks} folder={entry.folder} /> : <Missing sentence={failures.marks} />}
      </span>,
      removed ? "" : <Figure key="size" value={entry.size} show={size} sentence={failures.usage} />,
      entry.folder ? (
        <Figure key="objects" value={entry.objects} show={count} sentence={failures.usage} />
      ) : (
        <Figure
          key="rows"
          value={knownRows({ repository, path: entry.path, checksum: entry.checksum })}
          show={(rows) => counted(rows, "row")}
          sentence=""
        />
      ),
      uncommitted ? (
        <span key="change" class="late changed">
          uncommitted
        </span>
      ) : (
        <LastChangeOf key="change" change={change} repository={repository} />
      ),
      uncommitted ? entry.written > 0 && <When time={entry.written} /> : <WhenChanged key="when" change={change} />,
    ],
  };
}

/** A dash in the place of what could not be loaded, with the sentence why as its title. */
function Missing({ sentence }: { readonly sentence: string }) {
  return sentence ? <span title={sentence}>–</span> : null;
}

interface FigureProps {
  readonly value: number | undefined;
  readonly show: (value: number) => string;
  readonly sentence: string;
}

/** A number that comes late. */
function Figure({ value, show, sentence }: FigureProps) {
  return value === undefined ? <Missing sentence={sentence} /> : <span class="late">{show(value)}</span>;
}

function LastChangeOf({ change, repository }: { readonly change: LastChange; readonly repository: string }) {
  const { commit, error } = change;
  if (!commit) return <Missing sentence={error} />;
  return (
    <span class="late">
      <Link
        to={{ screen: "commit", repository, subject: commit.id }}
        title={`${subject(commit.message)} (${commit.committer})`}
      >
        <Subject message={commit.message} most={48} />
      </Link>
    </span>
  );
}

function WhenChanged({ change: { commit, error } }: { readonly change: LastChange }) {
  return commit ? <When time={commit.creation_date} /> : <Missing sentence={error} />;
}

/** Marks of uncommitted changes: `+` for an object, and with their numbers for a folder. */
function MarksOf({ marks, folder }: { readonly marks: Marks; readonly folder: boolean }) {
  const parts = [
    ["added", "+", marks.added],
    ["changed", "~", marks.changed],
    ["removed", "−", marks.removed],
  ] as const;
  const title = parts.flatMap(([word, , number]) => (number ? [folder ? `${count(number)} ${word}` : word] : [])).join(", ");
  return (
    <span class="marks" title={`uncommitted: ${title}`}>
      {parts.map(([word, sign, number]) =>
        number ? (
          <span key={word} class={word}>
            {sign}
            {folder && count(number)}
          </span>
        ) : null,
      )}
    </span>
  );
}
