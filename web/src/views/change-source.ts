/** Where a change comes from: two refs, a first commit, or what is not committed yet. Each answers the same questions. */
import { diffBranch, diffRefs, getUsage, listObjects, summarizeDiff, summarizeUncommitted } from "../api/endpoints";
import type { Diff, SummaryDocument, Totals } from "../api/schema";
import { NO_CHANGE } from "../model/changes";
import { type Page, pageOf } from "../parts/pages";

const PAGE = 200;

/** A difference that can be looked at folder by folder. */
export interface ChangeSource {
  /** Names the difference: a source with the same key has the same answers, as long as nothing moves. */
  readonly key: string;
  readonly repository: string;
  /** The refs whose objects the two sides are; the left one is `null` where there is nothing before. */
  readonly left: string | null;
  readonly right: string;
  /** Whether both sides are commits, which is what `graveler diff --rows` compares. */
  readonly committed: boolean;
  list(prefix: string, after: string, signal: AbortSignal): Promise<Page<Diff>>;
  sum(prefix: string, signal: AbortSignal): Promise<Pick<SummaryDocument, "total" | "results">>;
}

/** All differences between two refs. */
export function betweenRefs(repository: string, left: string, right: string): ChangeSource {
  return ofRefs(repository, left, right, "two_dot", left);
}

/** What merging `right` into `left` would bring: its changes since `base`, the common base of both. */
export function sinceBase(repository: string, left: string, right: string, base: string): ChangeSource {
  return ofRefs(repository, left, right, "three_dot", base);
}

function ofRefs(repository: string, left: string, right: string, type: "two_dot" | "three_dot", before: string): ChangeSource {
  return {
    key: JSON.stringify([repository, left, right, type]),
    repository,
    left: before,
    right,
    committed: true,
    list: async (prefix, after, signal) =>
      pageOf(
        await diffRefs(
          repository,
          left,
          right,
          { prefix, after, type, delimiter: "/", amount: PAGE, include_left_stats: true },
          signal,
        ),
      ),
    sum: (prefix, signal) => summarizeDiff(repository, left, right, { prefix, type, delimiter: "/" }, signal),
  };
}

/** Everything in a commit that has no parent. */
export function ofFirstCommit(repository: string, id: string): ChangeSource {
  return {
    key: JSON.stringify([repository, id]),
    repository,
    left: null,
    right: id,
    committed: true,
    list: async (prefix, after, signal) => {
      const { document } = await listObjects(repository, id, { prefix, after, delimiter: "/", amount: PAGE }, signal);
      const { items, next } = pageOf(document);
      return {
        items: items.map(({ path, path_type, size_bytes }): Diff => {
          if (path_type === "common_prefix") return { path, path_type: "common_prefix", type: "prefix_changed" };
          return { path, path_type: "object", type: "added", size_bytes: size_bytes ?? 0 };
        }),
        next,
      };
    },
    sum: async (prefix, signal) => {
      const usage = await getUsage(repository, id, { prefix, delimiter: "/" }, signal);
      const added = (part: { objects: number; size_bytes: number }): Totals => ({
        ...NO_CHANGE,
        added: part.objects,
        added_bytes: part.size_bytes,
      });
      return { total: added(usage), results: usage.results.map((part) => ({ path: part.path, totals: added(part) })) };
    },
  };
}

/** What is staged on a branch; `round` tells apart what was looked at before and after a change. */
export function uncommittedOn(repository: string, branch: string, round: number): ChangeSource {
  return {
    key: JSON.stringify([repository, branch, "uncommitted", round]),
    repository,
    left: `${branch}@`,
    right: branch,
    committed: false,
    list: async (prefix, after, signal) =>
      pageOf(
        await diffBranch(repository, branch, { prefix, after, delimiter: "/", amount: PAGE, include_left_stats: true }, signal),
      ),
    sum: (prefix, signal) => summarizeUncommitted(repository, branch, { prefix, delimiter: "/" }, signal),
  };
}
