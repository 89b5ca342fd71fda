/** The list of branches or of tags: what each points to, and creating, renaming and deleting them. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ListedRef, ListedRefs } from "../api/schema";
import type { Address } from "../model/addresses";
import { count, counted, shortId } from "../model/text";
import { CommitId, Failure, Name, Subject, Waiting, When } from "../parts/basics";
import { useDebounced } from "../parts/debounced";
import { FormDialog } from "../parts/form-dialog";
import { Link, setQuery, useTitle } from "../parts/navigation";
import { pageOf, usePages } from "../parts/pages";
import { type Column, type Row, Table } from "../parts/table";
import { isWriter } from "./session";
import { useShownRef } from "./shown-ref";
import "./ref-list.css";

/** What branches and tags do differently. */
export interface RefKind {
  readonly title: string;
  readonly noun: string;
  readonly plural: string;
  readonly list: (after: string, prefix: string, signal: AbortSignal) => Promise<ListedRefs>;
  readonly create: (name: string, source: string) => Promise<unknown>;
  readonly remove: (ref: ListedRef) => Promise<unknown>;
  readonly rename?: (name: string, to: string) => Promise<unknown>;
  /** The default branch, once it is known. */
  readonly base?: string | undefined;
  /** Further controls beside the search. */
  readonly controls?: ComponentChildren;
  /** What else is offered for one selected ref. */
  readonly offers?: (ref: ListedRef) => ComponentChildren;
  /** What is said about a name of which there is none. */
  readonly formerly?: (name: string) => ComponentChildren;
  /** What the list depends on besides the prefix. */
  readonly key: string;
}

type Open = "" | "create" | "rename" | "delete";

/** Draws the list. */
export function RefList({ address, kind }: { readonly address: Address; readonly kind: RefKind }) {
  const { repository, query } = address;
  useTitle(kind.title, repository);
  const shown = useShownRef();
  const prefix = useDebounced(query.prefix ?? "");
  const key = JSON.stringify([repository, kind.key, prefix, query.after ?? ""]);
  const list = usePages(key, async (after, signal) => pageOf(await kind.list(after || (query.after ?? ""), prefix, signal)));
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<Open>("");
  const [deleted, setDeleted] = useState<readonly ListedRef[]>([]);
  const [error, setError] = useState<unknown>();
  const chosen = list.items.filter((ref) => selected.has(ref.id));
  const [single] = chosen.length === 1 ? chosen : [];
  const merged = list.items.filter((ref) => isMerged(ref) && !ref.uncommitted && ref.id !== kind.base && !selected.has(ref.id));
  const close = () => setOpen("");
  const changed = () => {
    setSelected(new Set());
    list.reload();
    shown.reload();
  };
  const toggle = (id: string) =>
    setSelected((before) => (before.has(id) ? new Set([...before].filter((other) => other !== id)) : new Set([...before, id])));
  const remove = async () => {
    setError(undefined);
    setDeleted([]);
    for (const ref of chosen) {
      await kind.remove(ref);
      setDeleted((before) => [...before, ref]);
    }
  };
  const startDeleting = () => {
    if (chosen.some((ref) => ref.uncommitted)) setOpen("delete");
    else remove().catch(setError).finally(changed);
  };
  const restore = async () => {
    setError(undefined);
    for (const ref of deleted) {
      await kind.create(ref.id, ref.commit_id);
      setDeleted((before) => before.filter((other) => other !== ref));
    }
  };
  const dirty = chosen.filter((ref) => ref.uncommitted).map((ref) => ref.id);
  return (
    <main>
      <div class="heading">
        <h1>{kind.title}</h1>
        <span class="heading-end">
          <input
            type="search"
            aria-label={`Search ${kind.plural}`}
            placeholder="Names that begin with"
            value={query.prefix ?? ""}
            onInput={(event) => setQuery({ prefix: event.currentTarget.value, after: "" }, true)}
          />
          {kind.controls}
          {isWriter.value && merged.length > 0 && (
            <button
              type="button"
              title="The default branch has all of their commits, and nothing on them is uncommitted"
              onClick={() => setSelected(new Set([...selected, ...merged.map((ref) => ref.id)]))}
            >
              Select merged
            </button>
          )}
          {isWriter.value && (
            <button type="button" onClick={() => setOpen("create")}>
              New {kind.noun}
            </button>
          )}
        </span>
      </div>
      {chosen.length > 0 && (
        // biome-ignore lint/a11y/useSemanticElements: buttons, not fields.
        <div class="selection" role="group" aria-label="Selected">
          {count(chosen.length)} selected
          {isWriter.value && single && kind.rename && (
            <button type="button" onClick={() => setOpen("rename")}>
              Rename
            </button>
          )}
          {isWriter.value && (
            <button type="button" class="removes" onClick={startDeleting}>
              Delete
            </button>
          )}
          {single && kind.offers?.(single)}
          <ComparePair repository={repository} refs={chosen} />
          <button type="button" class="quiet" onClick={() => setSelected(new Set())}>
            Clear
          </button>
        </div>
      )}
      {deleted.length > 0 && (
        <p class="note" role="status">
          Deleted{" "}
          {deleted.map((ref) => (
            <span key={ref.id}>
              <Name text={ref.id} most={40} /> (<CommitId repository={repository} id={ref.commit_id} />){" "}
            </span>
          ))}
          <button type="button" class="as-link" onClick={() => restore().catch(setError).finally(changed)}>
            Undo
          </button>
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
      {list.error !== undefined && <Failure error={list.error} retry={list.reload} />}
      {!list.loaded && list.pending && <Waiting>Loading the {kind.plural}…</Waiting>}
      {list.loaded && !list.items.length && <NoRefs kind={kind} prefix={prefix} />}
      {list.items.length > 0 && (
        <Table
          label={kind.title}
          columns={columnsOf(kind)}
          rows={list.items.length}
          row={(number) => rowOf(repository, kind, list.items[number] as ListedRef, selected, toggle)}
          more={list.more}
        />
      )}
      {open === "create" && (
        <FormDialog
          title={`New ${kind.noun}`}
          fields={[
            { name: "name", label: "Name" },
            { name: "source", label: "At: a branch, tag, commit or expression", value: shown.ref ?? "" },
          ]}
          verb="Create"
          action={({ name = "", source = "" }) => kind.create(name.trim(), source.trim()).then(changed)}
          close={close}
        />
      )}
      {open === "rename" && single && kind.rename && (
        <FormDialog
          title={`Rename ${shortName(single.id)}`}
          fields={[{ name: "name", label: "New name", value: single.id }]}
          verb="Rename"
          action={({ name = "" }) => (kind.rename?.(single.id, name.trim()) ?? Promise.resolve()).then(changed)}
          close={close}
        />
      )}
      {open === "delete" && (
        <FormDialog
          title={`Delete ${counted(chosen.length, kind.noun, kind.plural)}?`}
          verb="Delete"
          removes
          action={() => remove().finally(changed)}
          close={close}
        >
          <p>
            The uncommitted changes of <Name text={dirty.join(", ")} /> end with it: Undo brings back the commits only.
          </p>
        </FormDialog>
      )}
    </main>
  );
}

function NoRefs({ kind, prefix }: { readonly kind: RefKind; readonly prefix: string }) {
  if (!prefix) return <p>This repository has no {kind.plural}.</p>;
  return (
    <p>
      No {kind.noun}'s name begins with “{prefix}”. {kind.formerly?.(prefix)}
    </p>
  );
}

/** A link that compares two refs, the one with the older commit first; nothing for any other number of refs. */
function ComparePair({ repository, refs }: { readonly repository: string; readonly refs: readonly ListedRef[] }) {
  const [older, newer, third] = [...refs].sort(byAge);
  if (!older || !newer || third) return null;
  return (
    <Link to={{ screen: "compare", repository, query: { ref: older.id, compare: newer.id, mode: "two" } }}>
      Compare 2 selected
    </Link>
  );
}

/** Returns whether the default branch has more commits than this branch, and all of its. */
function isMerged({ merged, behind }: ListedRef): boolean {
  return merged === true && behind !== 0;
}

/** Sorts refs by the age of their commits; of those of the same second, an ancestor comes first. */
function byAge(left: ListedRef, right: ListedRef): number {
  const [first, second] = [left.commit, right.commit];
  if (!first || !second) return 0;
  return first.creation_date - second.creation_date || first.generation - second.generation;
}

const shortName = (name: string) => (name.length > 40 ? `${name.slice(0, 39)}…` : name);

function columnsOf(kind: RefKind): readonly Column[] {
  return [
    { title: <span class="unseen">Select</span>, kind: "mark" },
    { title: "Name", kind: "name" },
    { title: "Last commit" },
    { title: "By" },
    { title: "When" },
    ...(kind.rename ? [{ title: "Behind, ahead", kind: "number" } as const, { title: "State" }] : []),
  ];
}

function rowOf(
  repository: string,
  kind: RefKind,
  ref: ListedRef,
  selected: ReadonlySet<string>,
  toggle: (id: string) => void,
): Row {
  const { id, commit } = ref;
  return {
    key: id,
    cells: [
      <input
        key="select"
        type="checkbox"
        aria-label={`Select ${shortName(id)}`}
        checked={selected.has(id)}
        onChange={() => toggle(id)}
      />,
      <Link key="name" to={{ screen: "objects", repository, query: { ref: id } }}>
        <Name text={id} most={60} />
      </Link>,
      <span key="commit">
        <CommitId repository={repository} id={ref.commit_id} /> {commit && <Subject message={commit.message} most={48} />}
      </span>,
      commit?.committer && <Name text={commit.committer} most={24} />,
      commit && <When time={commit.creation_date} />,
      ...(kind.rename ? [distanceOf(ref), stateOf(repository, kind.base, ref)] : []),
    ],
  };
}

function distanceOf({ ahead, behind, more }: ListedRef): ComponentChildren {
  if (ahead === undefined || behind === undefined) return null;
  const most = more ? "+" : "";
  return (
    <span title={`${counted(behind, "commit")} behind the default branch, ${count(ahead)} ahead of it`}>
      {behind || ahead ? `−${count(behind)}${most} +${count(ahead)}${most}` : "="}
    </span>
  );
}

function stateOf(repository: string, base: string | undefined, ref: ListedRef): ComponentChildren {
  const { id, commit_id, uncommitted } = ref;
  return (
    <>
      {uncommitted && (
        <Link to={{ screen: "uncommitted", repository, query: { ref: id } }} class="badge changed">
          ~ uncommitted
        </Link>
      )}
      {id === base && <span class="badge">default</span>}
      {isMerged(ref) && (
        <span class="badge" title={`The default branch has ${shortId(commit_id)} and all before it`}>
          merged
        </span>
      )}
    </>
  );
}
