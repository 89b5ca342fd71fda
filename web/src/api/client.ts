/**
 * The only place that sends requests.
 *
 * At most six are in flight. A GET that is refused with 429 or 503 is sent once more, after the pause that `Retry-After` asks for.
 * A request that is refused with 401 waits for a sign-in, if the page offers one, and is then sent again: nothing on the page is lost.
 */
import { ApiError, RefusedUploadError, UnreachableError } from "./errors";

const MOST_AT_ONCE = 6;
const LONGEST_PAUSE_SECONDS = 30;
const DEFAULT_PAUSE_SECONDS = 1;

export interface RequestOptions {
  readonly query?: Readonly<Record<string, QueryValue | readonly string[]>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

type QueryValue = string | number | boolean | undefined;

/** An answer: its document, and the headers that say which state was read. */
export interface Answer<T> {
  readonly document: T;
  readonly headers: Headers;
}

/** Asks the person to sign in; resolves once that is done. The page sets it; without one a 401 is an error like any other. */
export type SignIn = () => Promise<void>;

let signIn: SignIn | undefined;

/** Sets what a 401 does from now on. */
export function onSignInNeeded(action: SignIn | undefined): void {
  signIn = action;
}

/** Returns the address of a path of the API, such as `repositories`. */
export function apiUrl(path: string, query: RequestOptions["query"] = {}): string {
  const url = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value as QueryValue]) {
      if (item !== undefined && item !== "") url.searchParams.append(name, String(item));
    }
  }
  return url.href;
}

/** Returns path segments, percent-encoded, as one path. */
export function pathOf(...segments: readonly string[]): string {
  return segments.map(encodeURIComponent).join("/");
}

/** Sends a request to the API and returns its JSON document; undefined for an answer of another type. Throws `ApiError`, `UnreachableError`, or an abort. */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  return (await requestWithHeaders<T>(method, path, options)).document;
}

/** As `request`, with the answer's headers. */
export async function requestWithHeaders<T>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  const init: RequestInit = { method, headers, credentials: "same-origin", signal: options.signal ?? null };
  if (options.body !== undefined) {
    headers["content-type"] = "application/json";
    init.body = JSON.stringify(options.body);
  }
  const response = await send(apiUrl(path, options.query), init, true);
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  return { document: (text && isJson ? JSON.parse(text) : undefined) as T, headers: response.headers };
}

/** Sends a request whose answer is bytes, with an absolute or relative address; `range` is `[first, end)` in bytes. */
export async function requestBytes(
  address: string,
  options: { readonly range?: readonly [number, number]; readonly signal?: AbortSignal | undefined } = {},
): Promise<Response> {
  const headers: Record<string, string> = options.range ? { range: `bytes=${options.range[0]}-${options.range[1] - 1}` } : {};
  const url = new URL(address, document.baseURI);
  const credentials = url.origin === location.origin ? "same-origin" : "omit";
  return send(url.href, { headers, credentials, signal: options.signal ?? null }, url.origin === location.origin);
}

/** Puts bytes to a presigned address, reporting the bytes that were sent so far, and returns the ETag. */
export function putBytes(
  address: string,
  body: Blob,
  options: { readonly progress?: (sent: number) => void; readonly signal?: AbortSignal | undefined } = {},
): Promise<string> {
  // `fetch` reports no progress of an upload.
  return new Promise((resolve, reject) => {
    const upload = new XMLHttpRequest();
    const { signal } = options;
    const abort = () => upload.abort();
    upload.open("PUT", address);
    upload.upload.onprogress = (event) => options.progress?.(event.loaded);
    upload.onload = () => {
      signal?.removeEventListener("abort", abort);
      if (upload.status >= 200 && upload.status < 300) resolve(upload.getResponseHeader("etag")?.replaceAll('"', "") ?? "");
      else reject(new ApiError(upload.status, storeSentence(upload.responseText), "", "", {}));
    };
    upload.onerror = () => {
      const { origin } = new URL(address, document.baseURI);
      reject(origin === location.origin ? new UnreachableError(origin) : new RefusedUploadError(origin));
    };
    upload.onabort = () => reject(new DOMException("the upload was cancelled", "AbortError"));
    signal?.addEventListener("abort", abort);
    upload.send(body);
  });
}

/** Returns the sentence of an error document of S3, which is XML. */
function storeSentence(text: string): string {
  return /<Message>([^<]*)<\/Message>/.exec(text)?.[1] ?? "the store refused the upload";
}

let running = 0;
const queue: (() => void)[] = [];
let busyChanged: ((busy: boolean) => void) | undefined;

/** Sets what is called when the first request starts and when the last one has ended. */
export function onBusy(action: ((busy: boolean) => void) | undefined): void {
  busyChanged = action;
}

async function turn(signal: AbortSignal | null | undefined): Promise<void> {
  if (running < MOST_AT_ONCE) {
    running += 1;
    if (running === 1) busyChanged?.(true);
    return;
  }
  await new Promise<void>((resolve, reject) => {
    const start = () => resolve();
    queue.push(start);
    signal?.addEventListener("abort", () => {
      const place = queue.indexOf(start);
      if (place < 0) return;
      queue.splice(place, 1);
      reject(signal.reason);
    });
  });
}

function end(): void {
  const next = queue.shift();
  if (next) {
    next();
    return;
  }
  running -= 1;
  if (!running) busyChanged?.(false);
}

async function send(url: string, init: RequestInit, ours: boolean): Promise<Response> {
  let repeated = false;
  for (;;) {
    init.signal?.throwIfAborted();
    const response = await sendOnce(url, init);
    if (response.ok || response.status === 206) return response;
    const pausable = (init.method ?? "GET") === "GET" && (response.status === 429 || response.status === 503);
    if (pausable && !repeated) {
      repeated = true;
      await pause(response.headers.get("retry-after"), init.signal);
      continue;
    }
    if (ours && response.status === 401 && signIn && !url.includes("/api/v1/auth/")) {
      const error = await errorOf(response);
      if (error.code !== "authentication_failed") throw error;
      await signIn();
      continue;
    }
    throw await errorOf(response);
  }
}

async function sendOnce(url: string, init: RequestInit): Promise<Response> {
  await turn(init.signal);
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new UnreachableError(new URL(url).origin);
  } finally {
    end();
  }
}

function pause(retryAfter: string | null, signal: AbortSignal | null | undefined): Promise<void> {
  const asked = Number(retryAfter);
  const seconds = retryAfter && asked > 0 ? Math.min(asked, LONGEST_PAUSE_SECONDS) : DEFAULT_PAUSE_SECONDS;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { message?: string; code?: string; detail?: string; fields?: Record<string, unknown> };
    return new ApiError(
      response.status,
      body.message ?? response.statusText,
      body.code ?? "",
      body.detail ?? "",
      body.fields ?? {},
    );
  } catch {
    const sentence = text.startsWith("<")
      ? storeSentence(text)
      : `the server answered ${response.status} ${response.statusText}`;
    return new ApiError(response.status, sentence, "", "", {});
  }
}
