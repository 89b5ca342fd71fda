/** The number of uncommitted changes, beside the section that shows them. */
import { useEffect, useState } from "preact/hooks";
import { summarizeUncommitted } from "../api/endpoints";
import { isAbort, sentenceOf } from "../api/errors";
import type { SummaryDocument } from "../api/schema";
import { changedObjects } from "../model/changes";
import { count } from "../model/text";
import type { ShownRef } from "./shown-ref";

const MOST = 1000;

/** Counts the changes of the shown branch, if it has any: up to a thousand, and again whenever the branch is looked at again. */
export function UncommittedCount({ repository, shown }: { readonly repository: string; readonly shown: ShownRef }) {
  const { description } = shown;
  const [summary, setSummary] = useState<SummaryDocument | { readonly failure: string }>();
  useEffect(() => {
    setSummary(undefined);
    if (!description?.uncommitted) return;
    const abort = new AbortController();
    summarizeUncommitted(repository, description.id, { most: MOST }, abort.signal).then(setSummary, (error: unknown) => {
      if (!isAbort(error)) setSummary({ failure: sentenceOf(error) });
    });
    return () => abort.abort();
  }, [repository, description]);
  if (!summary) return null;
  if ("failure" in summary)
    return (
      <span title={summary.failure} class="section-count">
        –
      </span>
    );
  const objects = changedObjects(summary.total);
  return (
    <span class="section-count" title="Objects that are changed and not committed">
      {count(objects)}
      {summary.more && "+"}
    </span>
  );
}
