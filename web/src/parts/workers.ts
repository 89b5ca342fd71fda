/** Workers: scripts of the page's own files that run beside it, so that work which takes too long can be ended. */

/** What TypeScript's library does not know yet (https://w3c.github.io/trusted-types). */
interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { readonly createScriptURL: (url: string) => string },
  ): { createScriptURL(url: string): string };
}

// The page's policy takes no plain text as the address of a script.
const own = (globalThis as { readonly trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy("graveler-workers", {
  createScriptURL: (url) => {
    if (new URL(url).origin !== location.origin) throw new TypeError(`${url} is no script of this page`);
    return url;
  },
});

/** Starts a worker of one of the page's own files, as `new URL` of its address returns it. */
export function startWorker(url: string): Worker {
  const { href } = new URL(url, document.baseURI);
  return new Worker(own?.createScriptURL(href) ?? href, { type: "module" });
}

/**
 * Returns a worker's answer to one message. Throws what the worker throws, an abort, or a `DOMException` named `TimeoutError` after so many
 * milliseconds; the worker has ended then.
 */
export function answerOf<T>(worker: Worker, message: unknown, milliseconds: number, signal: AbortSignal): Promise<T> {
  const ended = AbortSignal.any([signal, AbortSignal.timeout(milliseconds)]);
  return new Promise<T>((resolve, reject) => {
    ended.throwIfAborted();
    ended.addEventListener("abort", () => reject(ended.reason));
    worker.onmessage = ({ data }: MessageEvent<T>) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message || "a script of the page could not be loaded"));
    worker.postMessage(message);
  }).finally(() => worker.terminate());
}
