/** A new branch at what is shown. */
import { useState } from "preact/hooks";
import { createBranch } from "../api/endpoints";
import { shortId } from "../model/text";
import { FormDialog } from "../parts/form-dialog";
import { go } from "../parts/navigation";

interface BranchFromProps {
  readonly repository: string;
  /** The ref or commit ID at which the branch begins. */
  readonly source: string;
  /** Whether `source` is a commit's ID, which is shown by its first digits. */
  readonly isCommit: boolean;
}

/** A button that asks for the branch's name, and shows the branch once it is there. */
export function BranchFrom({ repository, source, isCommit }: BranchFromProps) {
  const [open, setOpen] = useState(false);
  const create = async ({ name = "" }: Readonly<Record<string, string>>) => {
    const branch = name.trim();
    await createBranch(repository, branch, source);
    go({ screen: "objects", repository, query: { ref: branch } });
  };
  return (
    <>
      <button type="button" class="quiet" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        Branch from here
      </button>
      {open && (
        <FormDialog
          title={`New branch from ${isCommit ? shortId(source) : source}`}
          fields={[{ name: "name", label: "Name" }]}
          verb="Create"
          action={create}
          close={() => setOpen(false)}
        />
      )}
    </>
  );
}
