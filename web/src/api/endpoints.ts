/** The requests of the page, one function for each operation of the HTTP API. Names and documents are those of `openapi.json`. */
import { type Answer, apiUrl, pathOf, request, requestWithHeaders } from "./client";
import type {
  AnnotationList,
  AuthCapabilities,
  Commit,
  CommitLog,
  Config,
  CurrentUserRights,
  DiffList,
  ListedRefs,
  ListedRepositories,
  Merge,
  MergeBase,
  MergePreview,
  MergeResult,
  ObjectStats,
  ObjectStatsList,
  Pagination,
  Ref,
  RefDescription,
  Reflog,
  Repository,
  RepositoryCreation,
  ResetCreation,
  SummaryDocument,
  UsageDocument,
} from "./schema";

type Signal = AbortSignal | undefined;

interface PageQuery {
  readonly after?: string | undefined;
  readonly amount?: number;
  readonly prefix?: string;
}

const repository = (name: string, ...rest: string[]) => pathOf("repositories", name, ...rest);

export const getUser = (signal?: Signal) => request<CurrentUserRights>("GET", "user", { signal });

export const getConfig = (signal?: Signal) => request<Config>("GET", "config", { signal });

export const login = (keyId: string, secret: string, untilClosed: boolean) =>
  request<unknown>("POST", "auth/login", {
    body: { access_key_id: keyId, secret_access_key: secret, session: untilClosed ? "window" : "twelve_hours" },
  });

/** Exchanges the one-time code of `graveler ui` for its session. */
export const loginByCode = (code: string) => request<void>("POST", "auth/ui", { body: { code } });

/** Returns how one can sign in. */
export const getCapabilities = (signal?: Signal) => request<AuthCapabilities>("GET", "auth/capabilities", { signal });

export const logout = () => request<void>("POST", "auth/logout");

export const listRepositories = (query: PageQuery & { search?: string; details?: string }, signal?: Signal) =>
  request<ListedRepositories>("GET", "repositories", { query: { ...query }, signal });

export const getRepository = (name: string, signal?: Signal) => request<Repository>("GET", repository(name), { signal });

export const createRepository = (body: Pick<RepositoryCreation, "name" | "storage_namespace"> & Partial<RepositoryCreation>) =>
  request<Repository>("POST", "repositories", { body });

export const getRef = (name: string, ref: string, signal?: Signal) =>
  request<RefDescription>("GET", repository(name, "refs", ref), { signal });

export const listObjects = (
  name: string,
  ref: string,
  query: PageQuery & { delimiter?: string; state?: string | undefined },
  signal?: Signal,
): Promise<Answer<ObjectStatsList>> =>
  requestWithHeaders<ObjectStatsList>("GET", repository(name, "refs", ref, "objects", "ls"), {
    query: { user_metadata: false, ...query },
    signal,
  });

export const statObject = (name: string, ref: string, path: string, query: { presign?: boolean } = {}, signal?: Signal) =>
  request<ObjectStats>("GET", repository(name, "refs", ref, "objects", "stat"), { query: { path, ...query }, signal });

export const getUsage = (name: string, ref: string, query: { prefix?: string; delimiter?: string }, signal?: Signal) =>
  request<UsageDocument>("GET", repository(name, "refs", ref, "usage"), { query, signal });

export const annotate = (
  name: string,
  ref: string,
  query: PageQuery & { delimiter?: string; within?: number; next?: string | undefined },
  signal?: Signal,
) => request<AnnotationList>("GET", repository(name, "refs", ref, "annotate"), { query: { ...query }, signal });

export const listCommits = (
  name: string,
  ref: string,
  query: { after?: string | undefined; amount?: number; first_parent?: boolean; since?: string; fields?: string } & {
    prefixes?: readonly string[];
    objects?: readonly string[];
    author?: string;
    text?: string;
  },
  signal?: Signal,
) => request<CommitLog>("GET", repository(name, "refs", ref, "commits"), { query: { ...query }, signal });

/** A page of a log in which every commit has all its members. */
export interface WholeLog {
  readonly pagination: Pagination;
  readonly results: readonly Commit[];
}

/** As `listCommits` without `fields`: the commits that changed any of the objects or prefixes, or all. */
export const listWholeCommits = (
  name: string,
  ref: string,
  query: { after?: string | undefined; amount?: number; prefixes?: readonly string[]; objects?: readonly string[] },
  signal?: Signal,
) => request<WholeLog>("GET", repository(name, "refs", ref, "commits"), { query: { ...query }, signal });

export const getCommit = (name: string, id: string, signal?: Signal) =>
  request<Commit>("GET", repository(name, "commits", id), { signal });

/** What a list of refs shows of each: some of `commit`, `counts`, `uncommitted`, with commas between them. */
interface RefsQuery extends PageQuery {
  readonly details?: string;
  readonly sort?: "name" | "updated";
}

export const listBranches = (name: string, query: RefsQuery & { show_hidden?: boolean }, signal?: Signal) =>
  request<ListedRefs>("GET", repository(name, "branches"), { query: { ...query }, signal });

export const listTags = (name: string, query: RefsQuery, signal?: Signal) =>
  request<ListedRefs>("GET", repository(name, "tags"), { query: { ...query }, signal });

export const createBranch = (name: string, branch: string, source: string) =>
  request<void>("POST", repository(name, "branches"), { body: { name: branch, source } });

export const renameBranch = (name: string, branch: string, to: string) =>
  request<Ref>("POST", repository(name, "branches", branch, "rename"), { body: { name: to } });

/** Deletes a branch, if `at` is still its commit. */
export const deleteBranch = (name: string, branch: string, at: string) =>
  request<void>("DELETE", repository(name, "branches", branch), { query: { at } });

/** Moves a branch without uncommitted changes to the commit of a ref. */
export const moveBranch = (name: string, branch: string, ref: string) =>
  request<void>("PUT", repository(name, "branches", branch, "hard_reset"), { query: { ref } });

export const createTag = (name: string, tag: string, ref: string) =>
  request<Ref>("POST", repository(name, "tags"), { body: { id: tag, ref } });

export const deleteTag = (name: string, tag: string) => request<void>("DELETE", repository(name, "tags", tag));

export const diffRefs = (
  name: string,
  left: string,
  right: string,
  query: PageQuery & { delimiter?: string; type?: "two_dot" | "three_dot"; include_left_stats?: boolean },
  signal?: Signal,
) => request<DiffList>("GET", repository(name, "refs", left, "diff", right), { query: { ...query }, signal });

export const diffBranch = (
  name: string,
  branch: string,
  query: PageQuery & { delimiter?: string; include_left_stats?: boolean },
  signal?: Signal,
) => request<DiffList>("GET", repository(name, "branches", branch, "diff"), { query: { ...query }, signal });

export const summarizeDiff = (
  name: string,
  left: string,
  right: string,
  query: { prefix?: string; delimiter?: string; type?: "two_dot" | "three_dot" },
  signal?: Signal,
) => request<SummaryDocument>("GET", repository(name, "refs", left, "diff", right, "summary"), { query, signal });

export const previewMerge = (
  name: string,
  source: string,
  destination: string,
  query: PageQuery & { totals?: boolean; commits?: boolean },
  signal?: Signal,
) =>
  request<MergePreview>("GET", repository(name, "refs", source, "merge", destination, "preview"), {
    query: { ...query },
    signal,
  });

export const getReflog = (name: string, branch: string, query: { amount?: number }, signal?: Signal) =>
  request<Reflog>("GET", repository(name, "branches", branch, "reflog"), { query, signal });

/** `most` bounds how many staged changes are read; if there are others, the answer has `more`. */
export const summarizeUncommitted = (
  name: string,
  branch: string,
  query: { prefix?: string; delimiter?: string; most?: number },
  signal?: Signal,
) => request<SummaryDocument>("GET", repository(name, "branches", branch, "diff", "summary"), { query, signal });

export const findMergeBase = (name: string, source: string, destination: string, signal?: Signal) =>
  request<MergeBase>("GET", repository(name, "refs", source, "merge", destination), { signal });

export const mergeRefs = (name: string, source: string, branch: string, body: Partial<Merge>) =>
  request<MergeResult>("POST", repository(name, "refs", source, "merge", branch), { body });

export const commitBranch = (
  name: string,
  branch: string,
  body: { message: string; metadata: Readonly<Record<string, string>> },
) => request<Commit>("POST", repository(name, "branches", branch, "commits"), { body });

export const resetBranch = (name: string, branch: string, body: Pick<ResetCreation, "type"> & { path?: string }) =>
  request<void>("PUT", repository(name, "branches", branch), { body });

/** What a commit is applied to a branch with, or taken back: `parent_number` counts from 1, and is 0 for a commit with one parent. */
interface Replay {
  readonly ref: string;
  readonly parent_number: number;
  readonly commit_overrides?: { readonly message: string };
  readonly strategy?: Merge["strategy"];
}

export const revertCommit = (name: string, branch: string, body: Replay) =>
  request<void>("POST", repository(name, "branches", branch, "revert"), { body });

export const cherryPick = (name: string, branch: string, body: Replay) =>
  request<Commit>("POST", repository(name, "branches", branch, "cherry-pick"), { body });

/** Returns the address of an object's bytes, for `requestBytes`, an image or a download. */
export const objectUrl = (name: string, ref: string, path: string) =>
  apiUrl(repository(name, "refs", ref, "objects"), { path });
