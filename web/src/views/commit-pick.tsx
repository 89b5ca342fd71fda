/** Applying what a commit changed to another branch, as a new commit there. */
import { useState } from "preact/hooks";
import { cherryPick } from "../api/endpoints";
import type { Commit } from "../api/schema";
import { shortId } from "../model/text";
import { Failure } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { go } from "../parts/navigation";
import { BranchOptions } from "./branch-options";
import { ConflictChoice, chosenParent, chosenStrategy, ParentChoice } from "./commit-replay";

/** A button that asks for the branch, and shows the new commit once it is there. */
export function CherryPick({ repository, commit }: { readonly repository: string; readonly commit: Commit }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="quiet" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Cherry-pick
      </button>
      {open && <PickDialog repository={repository} commit={commit} close={() => setOpen(false)} />}
    </>
  );
}

interface PickDialogProps {
  readonly repository: string;
  readonly commit: Commit;
  readonly close: () => void;
}

function PickDialog({ repository, commit, close }: PickDialogProps) {
  const [branch, setBranch] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const target = branch.trim();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    const message = String(fields.get("message")).trim();
    setBusy(true);
    setError(undefined);
    cherryPick(repository, target, {
      ref: commit.id,
      parent_number: chosenParent(fields, commit),
      ...(message && { commit_overrides: { message } }),
      ...chosenStrategy(fields),
    })
      .then(({ id }) => go({ screen: "commit", repository, subject: id, query: { ref: target } }), setError)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog label="Cherry-pick" close={close}>
      <h2>Cherry-pick {shortId(commit.id)}</h2>
      <p>What this commit changed becomes a new commit on another branch. Whatever else is on that branch stays.</p>
      <form class="form" onSubmit={submit}>
        <label>
          Branch
          <input
            required
            list="pick-branches"
            spellcheck={false}
            autocomplete="off"
            value={branch}
            onInput={(event) => {
              setBranch(event.currentTarget.value);
              setError(undefined);
            }}
          />
        </label>
        <BranchOptions repository={repository} id="pick-branches" />
        <ParentChoice commit={commit} title="A merge: apply its changes since" />
        <label>
          Message
          <input name="message" placeholder="The commit's own" autocomplete="off" />
        </label>
        {error !== undefined && <Failure error={error} />}
        <ConflictChoice error={error} branch={target} source="what is in the commit" />
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Picking…" : target ? `Cherry-pick onto ${target}` : "Cherry-pick"}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
