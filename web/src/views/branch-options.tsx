/** Names of branches to choose from in a field. */
import { listBranches } from "../api/endpoints";
import { useResource } from "../parts/resource";

const MOST = 1000;

/** The list for a field whose `list` is `id`. */
export function BranchOptions({ repository, id }: { readonly repository: string; readonly id: string }) {
  const branches = useResource(repository, (signal) => listBranches(repository, { amount: MOST }, signal));
  return (
    <datalist id={id}>
      {branches.value?.results.map((branch) => (
        <option key={branch.id} value={branch.id} />
      ))}
    </datalist>
  );
}
