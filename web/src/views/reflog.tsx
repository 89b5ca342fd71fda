/** The reference log of a branch: what moved it, when and by whom, and moving it back. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { createBranch, getReflog, moveBranch } from "../api/endpoints";
import type { ReflogEntry } from "../api/schema";
import type { Address } from "../model/addresses";
import { parseRefTime } from "../model/ref-times";
import { shortId } from "../model/text";
import { CommitId, Failure, Name, Waiting, When } from "../parts/basics";
import { FormDialog } from "../parts/form-dialog";
import { Link, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { type Column, type Row, Table } from "../parts/table";
import { isWriter } from "./session";
import { useShownRef } from "./shown-ref";

const PAGE = 100;
const MOST = 1000;
const NANOSECONDS = 1e9;
const COLUMNS: readonly Column[] = [
  { title: "What", kind: "name" },
  { title: "By" },
  { title: "When" },
  { title: "From" },
  { title: "To" },
  { title: <span class="unseen">Move</span> },
];

/** The moves of the address's branch, the newest first. */
export function ReferenceLog({ address }: { readonly address: Address }) {
  const { repository } = address;
  const shown = useShownRef();
  const branch = shown.ref === null ? null : (parseRefTime(shown.ref)?.branch ?? shown.ref);
  useTitle("Reference log", branch ?? "", repository);
  const [amount, setAmount] = useState(PAGE);
  const log = useResource(branch === null ? null : JSON.stringify([repository, branch, amount]), (signal) =>
    getReflog(repository, branch ?? "", { amount }, signal),
  );
  const [target, setTarget] = useState<string>();
  const entries = log.value?.results ?? [];
  const head = entries[0]?.new;
  const isDeleted = entries.length > 0 && head === null;
  const moved = () => {
    log.reload();
    shown.reload();
  };
  return (
    <main>
      <div class="heading">
        <h1>
          Reference log of <Name text={branch ?? "…"} most={40} />
        </h1>
        <Link to={{ screen: "branches", repository, query: { ref: shown.ref ?? "" } }}>All branches</Link>
      </div>
      {log.error !== undefined && <Failure error={log.error} retry={log.reload} />}
      {!log.value && log.pending && <Waiting>Loading the reference log…</Waiting>}
      {log.value && !entries.length && <p>Nothing has moved this branch in the last 90 days.</p>}
      {isDeleted && (
        <p class="note">
          This branch is deleted.
          {isWriter.value && " “Bring back” creates it again at the commit where it was before that move."}
        </p>
      )}
      {entries.length > 0 && (
        <Table
          label="Reference log"
          columns={COLUMNS}
          rows={entries.length}
          row={(number) => rowOf(repository, entries[number] as ReflogEntry, head, setTarget)}
          more={entries.length === amount && amount < MOST ? () => setAmount(MOST) : undefined}
        />
      )}
      {target !== undefined && branch !== null && (
        <MoveDialog
          repository={repository}
          branch={branch}
          isDeleted={isDeleted}
          target={target}
          moved={moved}
          close={() => setTarget(undefined)}
        />
      )}
    </main>
  );
}

interface MoveDialogProps {
  readonly repository: string;
  readonly branch: string;
  readonly isDeleted: boolean;
  /** The commit to which the branch is moved, or at which it begins again. */
  readonly target: string;
  readonly moved: () => void;
  readonly close: () => void;
}

function MoveDialog({ repository, branch, isDeleted, target, moved, close }: MoveDialogProps) {
  if (isDeleted) {
    const action = () => createBranch(repository, branch, target).then(moved);
    return (
      <FormDialog
        title={`Create ${branch} again at ${shortId(target)}?`}
        verb="Create the branch"
        action={action}
        close={close}
      />
    );
  }
  return (
    <FormDialog
      title={`Move ${branch} to ${shortId(target)}?`}
      verb="Move the branch"
      removes
      action={() => moveBranch(repository, branch, target).then(moved)}
      close={close}
    >
      <p>
        Later commits stay in this log for 90 days, and the branch can be moved back to them in the same way. Readers of the
        branch see the other state at once.
      </p>
    </FormDialog>
  );
}

function rowOf(repository: string, entry: ReflogEntry, head: string | null | undefined, move: (commit: string) => void): Row {
  const { old, new: present, operation } = entry;
  const commit = (id: string | null, absent: string): ComponentChildren =>
    id === null ? <span class="hint">{absent}</span> : <CommitId repository={repository} id={id} />;
  return {
    key: `${entry.time_ns} ${entry.operation_id}`,
    cells: [
      old === present ? `${operation}, uncommitted changes only` : operation,
      <Name key="by" text={entry.by} most={24} />,
      <When key="when" time={entry.time_ns / NANOSECONDS} />,
      commit(old, "created"),
      commit(present, "deleted"),
      isWriter.value && old !== null && old !== head && (
        <button
          type="button"
          class="quiet"
          onClick={() => move(old)}
          aria-label={`${head === null ? "Bring" : "Move"} back ${head === null ? "at" : "to"} ${shortId(old)}`}
        >
          {head === null ? "Bring back" : "Move back"}
        </button>
      ),
    ],
  };
}
