/** Uploading: bytes go to the store by presigned URLs, then the server is told; a session sends no bytes to the server itself. */
import { PART_BYTES, partsOf } from "../model/uploads";
import { pathOf, putBytes, request } from "./client";
import { configuration } from "./object-bytes";
import type { ObjectStats, PresignMultipartUpload, StagingLocation } from "./schema";

const PARTS_AT_ONCE = 3;

/** Where a file goes: a path on a branch. */
export interface UploadTarget {
  readonly repository: string;
  readonly branch: string;
  readonly path: string;
}

interface UploadOptions {
  /** Called with the number of bytes that were sent so far. */
  readonly progress: (sent: number) => void;
  readonly signal: AbortSignal;
}

/** Uploads a file and stages it: small ones at once, others in parts. A failed or cancelled upload leaves nothing on the branch. */
export async function uploadFile(target: UploadTarget, file: File, options: UploadOptions): Promise<ObjectStats> {
  const { storage_config: store } = await configuration();
  if (!store.pre_sign_support) throw new Error("This server signs no URLs for uploads. Use `graveler put`.");
  if (file.size <= PART_BYTES || !store.pre_sign_multipart_upload) return uploadWhole(target, file, options);
  return uploadInParts(target, file, options);
}

const staging = ({ repository, branch }: UploadTarget, ...rest: string[]) =>
  pathOf("repositories", repository, "branches", branch, "staging", ...rest);

async function uploadWhole(target: UploadTarget, file: File, { progress, signal }: UploadOptions): Promise<ObjectStats> {
  const { path } = target;
  const location = await request<StagingLocation>("GET", staging(target, "backing"), {
    query: { path, presign: true },
    signal,
  });
  if (!location.presigned_url) throw new Error("The server named no URL to upload to.");
  const checksum = await putBytes(location.presigned_url, file, { progress, signal });
  const { physical_address } = location;
  return request<ObjectStats>("PUT", staging(target, "backing"), {
    query: { path },
    body: { staging: { physical_address }, checksum: seen(checksum), size_bytes: file.size, content_type: typeOf(file) },
    signal,
  });
}

async function uploadInParts(target: UploadTarget, file: File, { progress, signal }: UploadOptions): Promise<ObjectStats> {
  const { path } = target;
  const parts = partsOf(file.size);
  const upload = await request<PresignMultipartUpload>("POST", staging(target, "pmpu"), {
    query: { path, parts: parts.length },
    signal,
  });
  const { upload_id, physical_address } = upload;
  const abort = new AbortController();
  const either = AbortSignal.any([signal, abort.signal]);
  try {
    const sent = parts.map(() => 0);
    const tags = await inTurns(parts, PARTS_AT_ONCE, async ([start, end], number) => {
      const url = upload.presigned_urls?.[number];
      if (!url) throw new Error(`The server named no URL for part ${number + 1}.`);
      const tag = await putBytes(url, file.slice(start, end), {
        progress: (bytes) => {
          sent[number] = bytes;
          progress(sent.reduce((sum, part) => sum + part, 0));
        },
        signal: either,
      });
      return { part_number: number + 1, etag: seen(tag) };
    });
    return await request<ObjectStats>("PUT", staging(target, "pmpu", upload_id), {
      query: { path },
      body: { parts: tags, physical_address, content_type: typeOf(file) },
      signal,
    });
  } catch (error) {
    abort.abort();
    // The parts are dropped. Where that fails, too, the store's rule for unfinished uploads drops them; the first failure is the one to show.
    await Promise.allSettled([
      request<void>("DELETE", staging(target, "pmpu", upload_id), { query: { path }, body: { physical_address } }),
    ]);
    throw error;
  }
}

/** Runs tasks for items, some at once, and returns the results in the order of the items. Ends with the first failure. */
async function inTurns<T, R>(items: readonly T[], atOnce: number, task: (item: T, number: number) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async () => {
    while (next < items.length) {
      const number = next;
      next += 1;
      results[number] = await task(items[number] as T, number);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
  return results;
}

function seen(tag: string): string {
  if (!tag) throw new Error("The store did not say the checksum of what it got. Its CORS rules must expose the header ETag.");
  return tag;
}

function typeOf(file: File): string {
  return file.type || "application/octet-stream";
}
