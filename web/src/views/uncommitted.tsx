/** What is staged on a branch and not committed yet: looked at, committed, or reset. */
import { useCallback, useMemo, useState } from "preact/hooks";
import { commitBranch, resetBranch } from "../api/endpoints";
import type { RefDescription } from "../api/schema";
import type { Address } from "../model/addresses";
import type { TreeRow } from "../model/changes";
import { parseMetadata } from "../model/metadata";
import { Failure, Name, Waiting } from "../parts/basics";
import { go, useTitle } from "../parts/navigation";
import { Change } from "./change";
import { Ask } from "./change-ask";
import { uncommittedOn } from "./change-source";
import { isWriter } from "./session";
import { useShownRef } from "./shown-ref";
import "./uncommitted.css";

/** The uncommitted changes of the address's branch. */
export function Uncommitted({ address }: { readonly address: Address }) {
  const { repository } = address;
  const { ref, description, error, reload } = useShownRef();
  useTitle("Uncommitted changes", ref ?? "", repository);
  if (error !== undefined) return <Failure error={error} retry={reload} />;
  if (!description) return <Waiting>Loading the branch…</Waiting>;
  if (description.type !== "branch") {
    return (
      <main class="prose">
        <h1>Uncommitted changes</h1>
        <p>
          <Name text={description.id} /> is no branch. Only branches have uncommitted changes.
        </p>
      </main>
    );
  }
  return <Staged address={address} branch={description} look={reload} />;
}

function Staged({
  address,
  branch,
  look,
}: {
  readonly address: Address;
  readonly branch: RefDescription;
  readonly look: () => void;
}) {
  const { repository } = address;
  const [round, setRound] = useState(0);
  const source = useMemo(() => uncommittedOn(repository, branch.id, round), [repository, branch.id, round]);
  const reset = useCallback(
    async (path: string | undefined, folder: boolean) => {
      const type = path === undefined ? "reset" : folder ? "common_prefix" : "object";
      await resetBranch(repository, branch.id, { type, ...(path !== undefined && { path }) });
      setRound((before) => before + 1);
      look();
    },
    [repository, branch.id, look],
  );
  const action = (row: TreeRow) => {
    if (row.kind !== "folder" && row.kind !== "object") return null;
    const folder = row.kind === "folder";
    return (
      <Ask
        title="Reset"
        question={folder ? "Drop all changes in it?" : "Drop this change?"}
        action={() => reset(row.path, folder)}
      />
    );
  };
  return (
    <main class="uncommitted">
      <div class="heading">
        <h1>
          Uncommitted changes on <Name text={branch.id} most={60} />
        </h1>
        {branch.uncommitted && isWriter.value && (
          <Ask
            title="Reset all"
            question={`Drop all uncommitted changes on ${branch.id}?`}
            action={() => reset(undefined, false)}
          />
        )}
      </div>
      {branch.protected && <p class="note">{branch.id} is protected: changes come by merging another branch.</p>}
      {branch.read_only && <p class="note">The repository is read-only.</p>}
      {branch.uncommitted === false ? (
        <p>Nothing is uncommitted.</p>
      ) : (
        <>
          {isWriter.value && <CommitForm repository={repository} branch={branch} look={look} />}
          <Change source={source} address={address} action={isWriter.value ? action : undefined} />
        </>
      )}
    </main>
  );
}

function CommitForm({
  repository,
  branch,
  look,
}: {
  readonly repository: string;
  readonly branch: RefDescription;
  readonly look: () => void;
}) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const commit = async (form: HTMLFormElement) => {
    const fields = new FormData(form);
    const message = String(fields.get("message")).trim();
    const created = await commitBranch(repository, branch.id, {
      message,
      metadata: parseMetadata(String(fields.get("metadata"))),
    });
    look();
    go({ screen: "commit", repository, subject: created.id, query: { ref: branch.id } });
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    commit(event.currentTarget as HTMLFormElement)
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return (
    <form class="form commit-form" onSubmit={submit}>
      <label>
        Message
        <textarea name="message" rows={2} required />
      </label>
      <details>
        <summary>Metadata</summary>
        <label>
          Lines of name=value
          <textarea name="metadata" rows={2} spellcheck={false} />
        </label>
      </details>
      {error !== undefined && <Failure error={error} />}
      <div>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? "Committing…" : `Commit to ${branch.id}`}
        </button>
      </div>
    </form>
  );
}
