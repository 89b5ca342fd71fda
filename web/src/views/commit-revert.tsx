/** Undoing commits on a branch, each with a new commit. */
import { useState } from "preact/hooks";
import { getCommit, revertCommit } from "../api/endpoints";
import type { Commit } from "../api/schema";
import type { Address } from "../model/addresses";
import { counted } from "../model/text";
import { CommitId, Failure, Name, Subject, Waiting, When } from "../parts/basics";
import { go, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { ConflictChoice, chosenParent, chosenStrategy, ParentChoice } from "./commit-replay";

/** A form for the commits that the address names, with commas between them. They are reverted in that order. */
export function Revert({ address }: { readonly address: Address }) {
  const { repository, subject: branch, query } = address;
  const ids = (query.commits ?? "").split(",").filter(Boolean);
  useTitle("Revert", branch, repository);
  const commits = useResource(ids.length ? JSON.stringify([repository, ids]) : null, (signal) =>
    Promise.all(ids.map((id) => getCommit(repository, id, signal))),
  );
  return (
    <main class="prose">
      <h1>
        Revert on <Name text={branch} most={60} />
      </h1>
      {!ids.length && <p>The address names no commit. Open one in the history, and choose “Revert”.</p>}
      {commits.error !== undefined && <Failure error={commits.error} retry={commits.reload} />}
      {ids.length > 0 && commits.pending && !commits.value && <Waiting>Loading the commits…</Waiting>}
      {commits.value && <RevertForm repository={repository} branch={branch} commits={commits.value} />}
    </main>
  );
}

function RevertForm({
  repository,
  branch,
  commits,
}: {
  readonly repository: string;
  readonly branch: string;
  readonly commits: readonly Commit[];
}) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const [reverted, setReverted] = useState(0);
  const rest = commits.slice(reverted);
  const revert = async (form: HTMLFormElement) => {
    const fields = new FormData(form);
    const message = String(fields.get("message") ?? "").trim();
    for (const commit of rest) {
      await revertCommit(repository, branch, {
        ref: commit.id,
        parent_number: chosenParent(fields, commit),
        ...(message && { commit_overrides: { message } }),
        ...chosenStrategy(fields),
      });
      setReverted((before) => before + 1);
    }
    go({ screen: "commits", repository, query: { ref: branch } });
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    revert(event.currentTarget as HTMLFormElement)
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return (
    <form class="form" onSubmit={submit}>
      <p>Each of these is undone by a new commit. Later changes to the same objects are kept, or are conflicts.</p>
      <ul>
        {commits.map((commit, number) => (
          <li key={commit.id}>
            <CommitId repository={repository} id={commit.id} /> <Subject message={commit.message} />,{" "}
            <Name text={commit.committer || "–"} most={40} />, <When time={commit.creation_date} />
            {number < reverted && " – reverted"}
            <ParentChoice commit={commit} title="A merge: go back to" />
          </li>
        ))}
      </ul>
      {commits.length === 1 && (
        <label>
          Message
          <input name="message" placeholder="The API's own, which names the commit" autocomplete="off" />
        </label>
      )}
      {error !== undefined && <Failure error={error} />}
      <ConflictChoice error={error} branch={branch} source="what was there before the commit" />
      <div>
        <button type="submit" class="primary" disabled={busy || !rest.length}>
          {busy ? "Reverting…" : `Revert ${counted(rest.length, "commit")} on ${branch}`}
        </button>
      </div>
    </form>
  );
}
