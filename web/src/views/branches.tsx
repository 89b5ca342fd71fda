/** The branches of a repository. */
import { createBranch, deleteBranch, getRepository, listBranches, renameBranch } from "../api/endpoints";
import type { Address } from "../model/addresses";
import { Link, setQuery } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { RefList } from "./ref-list";
import { useShownRef } from "./shown-ref";

const PAGE = 100;

/** The branches whose names begin with `prefix`. */
export function Branches({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const { ref } = useShownRef();
  const properties = useResource(repository, (signal) => getRepository(repository, signal));
  const hidden = query.show_hidden === "true";
  const details = "commit,counts,uncommitted";
  return (
    <RefList
      address={address}
      kind={{
        title: "Branches",
        noun: "branch",
        plural: "branches",
        key: `branches ${hidden}`,
        base: properties.value?.default_branch,
        list: (after, prefix, signal) =>
          listBranches(repository, { after, prefix, amount: PAGE, show_hidden: hidden, details }, signal),
        create: (name, source) => createBranch(repository, name, source),
        remove: (branch) => deleteBranch(repository, branch.id, branch.commit_id),
        rename: (name, to) => renameBranch(repository, name, to),
        controls: (
          <label class="choice">
            <input
              type="checkbox"
              checked={hidden}
              onChange={(event) => setQuery({ show_hidden: event.currentTarget.checked ? "true" : "", after: "" }, true)}
            />
            Hidden ones too
          </label>
        ),
        formerly: (name) => (
          <>
            If there was one called so,{" "}
            <Link to={{ screen: "reflog", repository, query: { ref: name } }}>its reference log</Link> can bring it back.
          </>
        ),
        offers: ({ id }) => (
          <>
            <Link to={{ screen: "compare", repository, query: { ref: ref ?? "", compare: id } }}>Compare</Link>
            <Link to={{ screen: "reflog", repository, query: { ref: id } }}>Reference log</Link>
          </>
        ),
      }}
    />
  );
}
