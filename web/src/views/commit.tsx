/** One commit: what it says about itself, and what it changed. */
import { useMemo } from "preact/hooks";
import { getCommit } from "../api/endpoints";
import type { Commit } from "../api/schema";
import type { Address } from "../model/addresses";
import { shortId, subject } from "../model/text";
import { CommitId, Copy, Failure, Name, Waiting, When } from "../parts/basics";
import { Link, useTitle } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { BranchFrom } from "./branch-creation";
import { Change } from "./change";
import { betweenRefs, ofFirstCommit } from "./change-source";
import { CherryPick } from "./commit-pick";
import { isWriter } from "./session";
import { useShownRef } from "./shown-ref";
import "./commit.css";

/** The metadata of a cherry-pick that names the commit that was picked. */
const PICKED = "cherry-pick-origin";

/** The commit that the address names. `parent` in the address (from 1) is the parent that it is compared with. */
export function CommitScreen({ address }: { readonly address: Address }) {
  const { repository, subject: id, query } = address;
  const commit = useResource(`${repository} ${id}`, (signal) => getCommit(repository, id, signal));
  useTitle(commit.value ? subject(commit.value.message) : shortId(id), repository);
  if (commit.error !== undefined) return <Failure error={commit.error} retry={commit.reload} />;
  if (!commit.value) return <Waiting>Loading the commit…</Waiting>;
  const number = Math.min(Math.max(1, Number(query.parent) || 1), Math.max(1, commit.value.parents.length));
  return <LoadedCommit address={address} commit={commit.value} parentNumber={number} />;
}

function LoadedCommit({
  address,
  commit,
  parentNumber,
}: {
  readonly address: Address;
  readonly commit: Commit;
  readonly parentNumber: number;
}) {
  const { repository } = address;
  const parent = commit.parents[parentNumber - 1];
  const source = useMemo(
    () => (parent ? betweenRefs(repository, parent, commit.id) : ofFirstCommit(repository, commit.id)),
    [repository, parent, commit.id],
  );
  return (
    <main>
      <CommitHead address={address} commit={commit} />
      <Comparison address={address} commit={commit} parentNumber={parentNumber} />
      <Change source={source} address={address} />
    </main>
  );
}

function CommitHead({ address, commit }: { readonly address: Address; readonly commit: Commit }) {
  const { repository } = address;
  const { ref } = useShownRef();
  const title = subject(commit.message);
  const rest = commit.message.slice(title.length).replace(/^\n+/, "");
  const metadata = Object.entries(commit.metadata);
  return (
    <header class="commit-head">
      <div class="heading">
        <h1>
          <bdi>{title || "(no message)"}</bdi>
        </h1>
        <nav class="actions" aria-label="This commit">
          <Link to={{ screen: "objects", repository, query: { ref: commit.id } }}>Browse</Link>
          <Link to={{ screen: "commits", repository, query: { ref: commit.id } }}>History from here</Link>
          {ref && isWriter.value && (
            <Link to={{ screen: "revert", repository, subject: ref, query: { commits: commit.id } }}>Revert on {ref}</Link>
          )}
          {isWriter.value && <CherryPick repository={repository} commit={commit} />}
          {isWriter.value && <BranchFrom repository={repository} source={commit.id} isCommit />}
        </nav>
      </div>
      {rest && <pre class="message-body">{rest}</pre>}
      <dl class="properties">
        <dt>Commit</dt>
        <dd>
          <span class="id">{commit.id}</span>
          <Copy text={commit.id} />
        </dd>
        <dt>Committer</dt>
        <dd>
          {commit.committer ? <Name text={commit.committer} /> : "–"}, <When time={commit.creation_date} />
        </dd>
        <dt>{commit.parents.length === 1 ? "Parent" : "Parents"}</dt>
        <dd>
          {commit.parents.length ? commit.parents.map((id) => <CommitId key={id} repository={repository} id={id} />) : "none"}
        </dd>
        <dt>Tree</dt>
        <dd class="id">{commit.meta_range_id || "empty"}</dd>
        {metadata.map(([name, value]) => (
          <>
            <dt key={`name ${name}`}>
              <Name text={name} />
            </dt>
            <dd key={`value ${name}`}>
              {name === PICKED ? <CommitId repository={repository} id={value} /> : <Name text={value} most={400} />}
            </dd>
          </>
        ))}
      </dl>
    </header>
  );
}

/** Says what a commit is compared with. */
function Comparison({
  address,
  commit,
  parentNumber,
}: {
  readonly address: Address;
  readonly commit: Commit;
  readonly parentNumber: number;
}) {
  const { repository } = address;
  const { parents } = commit;
  const parent = parents[parentNumber - 1];
  if (!parent) return <p>The first commit: everything in it is new.</p>;
  if (parents.length < 2) return null;
  return (
    <p>
      A merge, compared with its {parentNumber === 1 ? "first" : `parent ${parentNumber}`}
      {parentNumber === 1 && " parent"} <CommitId repository={repository} id={parent} />.{" "}
      {parents.map((id, index) =>
        index + 1 === parentNumber ? null : (
          <Link key={id} to={{ ...address, query: { ...address.query, parent: String(index + 1) } }}>
            Compare with parent {index + 1}
          </Link>
        ),
      )}
    </p>
  );
}
