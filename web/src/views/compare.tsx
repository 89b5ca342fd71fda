/** Two refs beside one another: what merging one into the other would bring, or all differences. */
import { useCallback, useMemo } from "preact/hooks";
import { findMergeBase, getRef, getRepository } from "../api/endpoints";
import type { MergeBase, RefDescription } from "../api/schema";
import type { Address } from "../model/addresses";
import { shortId } from "../model/text";
import { CommitId, Failure, Name, Waiting } from "../parts/basics";
import { Link, setQuery, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { BranchOptions } from "./branch-options";
import { Change } from "./change";
import { betweenRefs, sinceBase } from "./change-source";
import { MergePanel } from "./compare-merge";
import { useShownRef } from "./shown-ref";
import "./compare.css";

/** Both refs as they were resolved together, with the base of a merge. */
interface Pair {
  readonly base: RefDescription;
  readonly source: RefDescription;
  readonly common: MergeBase | null;
}

/** The comparison that the address names: `ref` is the base, `compare` the source, `mode` `three` (what merging brings) or `two`. */
export function Compare({ address }: { readonly address: Address }) {
  const { repository, query } = address;
  const { ref, error, reload } = useShownRef();
  const source = query.compare ?? "";
  const three = query.mode !== "two";
  useTitle(source ? `${ref} ← ${source}` : "Compare", repository);
  const pair = useResource(
    ref === null || !source ? null : JSON.stringify([repository, ref, source, three]),
    async (signal): Promise<Pair> => {
      const [base, other] = await Promise.all([getRef(repository, ref ?? "", signal), getRef(repository, source, signal)]);
      const common = three ? await findMergeBase(repository, other.commit_id, base.commit_id, signal) : null;
      return { base, source: other, common };
    },
  );
  const failure = error ?? pair.error;
  return (
    <main class="compare">
      <h1 class="unseen">Compare</h1>
      <Refs repository={repository} base={ref ?? ""} source={source} three={three} />
      {failure !== undefined && <Failure error={failure} retry={error === undefined ? pair.reload : reload} />}
      {!source && ref !== null && <Proposal repository={repository} gitRef={ref} />}
      {source && pair.pending && !pair.value && <Waiting>Finding the commits…</Waiting>}
      {pair.value && <Compared address={address} pair={pair.value} look={pair.reload} />}
    </main>
  );
}

/** What to compare a ref with: with the default branch, since that is what most branches are merged into. */
function Proposal({ repository, gitRef }: { readonly repository: string; readonly gitRef: string }) {
  const properties = useResource(repository, (signal) => getRepository(repository, signal));
  const main = properties.value?.default_branch;
  return (
    <p>
      {main !== undefined && main !== gitRef && (
        <>
          <Link to={{ screen: "compare", repository, query: { ref: main, compare: gitRef } }}>
            Compare {gitRef} with {main}, and merge it
          </Link>
          .{" "}
        </>
      )}
      <span class="hint">Or choose a branch, a tag, a commit or an expression such as main~2 to compare {gitRef} with.</span>
    </p>
  );
}

function Refs({
  repository,
  base,
  source,
  three,
}: {
  readonly repository: string;
  readonly base: string;
  readonly source: string;
  readonly three: boolean;
}) {
  const change = (changes: Readonly<Record<string, string>>) => setQuery({ ...changes, file: "", prefix: "", take: "" });
  const input = (name: "ref" | "compare", value: string, title: string) => (
    <label>
      {title}
      <input
        key={value}
        list="compare-refs"
        defaultValue={value}
        spellcheck={false}
        onChange={(event) => change({ [name]: event.currentTarget.value.trim() })}
      />
    </label>
  );
  return (
    <div class="compare-refs">
      {input("ref", base, "Base")}
      <button type="button" onClick={() => change({ ref: source, compare: base })} disabled={!source}>
        Swap
      </button>
      {input("compare", source, "Source")}
      <label>
        Show
        <select value={three ? "three" : "two"} onChange={(event) => change({ mode: event.currentTarget.value })}>
          <option value="three">
            what merging {source || "the source"} into {base || "the base"} would bring
          </option>
          <option value="two">
            all differences between {base || "the base"} and {source || "the source"}
          </option>
        </select>
      </label>
      <BranchOptions repository={repository} id="compare-refs" />
    </div>
  );
}

function Compared({ address, pair, look }: { readonly address: Address; readonly pair: Pair; readonly look: () => void }) {
  const { repository } = address;
  const { base, source, common } = pair;
  const [left, right, basis] = [base.commit_id, source.commit_id, common?.base_commit_id];
  const change = useMemo(
    () => (basis ? sinceBase(repository, left, right, basis) : betweenRefs(repository, left, right)),
    [repository, left, right, basis],
  );
  const named = useCallback(
    (ref: RefDescription) => (
      <>
        <Name text={ref.id} most={40} />
        {ref.id !== ref.commit_id && shortId(ref.commit_id) !== ref.id && (
          <>
            {" "}
            (<CommitId repository={repository} id={ref.commit_id} />)
          </>
        )}
      </>
    ),
    [repository],
  );
  return (
    <>
      <p>
        {basis ? (
          <>
            What merging {named(source)} into {named(base)} would bring: the changes of {source.id} since their common base{" "}
            <CommitId repository={repository} id={basis} />.
          </>
        ) : (
          <>
            All differences between {named(base)} and {named(source)}: what turns {base.id} into {source.id}.
          </>
        )}
      </p>
      {basis && <MergePanel address={address} base={base} source={source} basis={basis} look={look} />}
      {basis && <h2>Changes</h2>}
      <Change source={change} address={address} />
    </>
  );
}
