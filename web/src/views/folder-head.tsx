/** What stands above a folder's rows: what is in it, and its last commit. */
import { listWholeCommits } from "../api/endpoints";
import { sentenceOf } from "../api/errors";
import type { UsageDocument } from "../api/schema";
import type { Entry } from "../model/listing";
import { count, counted, size } from "../model/text";
import { CommitId, Name, Subject, When } from "../parts/basics";
import { Link } from "../parts/navigation";
import { type Resource, useResource } from "../parts/resource";
import { InRefBar } from "./ref-bar";
import { UseIt } from "./use-it";

interface FolderHeadProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string;
  /** Whether only some names are listed and counted. */
  readonly filtered: boolean;
  readonly rows: readonly Entry[];
  /** Whether `rows` are all. */
  readonly complete: boolean;
  readonly usage: Resource<UsageDocument>;
}

/** Totals and last commit of a folder. */
export function FolderHead({ repository, gitRef, path, filtered, rows, complete, usage }: FolderHeadProps) {
  const last = useResource(JSON.stringify([repository, gitRef, path]), (signal) =>
    listWholeCommits(repository, gitRef, { amount: 1, ...(path && { prefixes: [path] }) }, signal),
  );
  const commit = last.value?.results[0];
  const folders = rows.filter((row) => row.folder).length;
  return (
    <>
      <InRefBar>
        <UseIt place={{ repository, ref: gitRef, path, kind: path ? "folder" : "ref" }} />
      </InRefBar>
      <p class="totals">
        {complete ? counted(folders, "folder") : `more than ${count(rows.length)} entries`},{" "}
        {usage.value ? (
          <span class="late">
            {counted(usage.value.objects, "object")}, {size(usage.value.size_bytes)}
          </span>
        ) : usage.error === undefined ? (
          "counting…"
        ) : (
          <span title={sentenceOf(usage.error)}>–</span>
        )}
        {filtered && " (of these names)"}
      </p>
      <p class="last">
        {commit && (
          <span class="late">
            <CommitId repository={repository} id={commit.id} /> <Subject message={commit.message} />{" "}
            <span class="hint">
              <Name text={commit.committer} most={40} /> · <When time={commit.creation_date} />
            </span>
          </span>
        )}
        {last.error !== undefined && <span title={sentenceOf(last.error)}>Last commit: –</span>}
        <Link to={{ screen: "commits", repository, query: { ref: gitRef, path } }} class="history">
          History
        </Link>
      </p>
    </>
  );
}
