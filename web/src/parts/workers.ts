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

/** What a worker sends: how far it is (0 to 1), and at last its result, or a sentence why there is none. */
type Message = { readonly progress: number } | { readonly result: unknown } | { readonly failure: string };

interface Question {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly progress: ((done: number) => void) | undefined;
}

/** A worker that answers one request after the other, until it is ended. */
export class Assistant {
  readonly #worker: Worker;
  readonly #questions: Question[] = [];

  constructor(url: string) {
    this.#worker = startWorker(url);
    this.#worker.onmessage = ({ data }: MessageEvent<Message>) => {
      if ("progress" in data) {
        this.#questions[0]?.progress?.(data.progress);
        return;
      }
      const question = this.#questions.shift();
      if ("result" in data) question?.resolve(data.result);
      else question?.reject(new Error(data.failure));
    };
    this.#worker.onerror = (event) => {
      this.end(new Error(event.message || "A script of the page could not be loaded."));
    };
  }

  /** Returns the answer to a request. `transfer` are buffers that the worker takes over. */
  ask<T>(request: unknown, transfer: Transferable[] = [], progress?: (done: number) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#questions.push({ resolve: resolve as (result: unknown) => void, reject, progress });
      this.#worker.postMessage(request, transfer);
    });
  }

  /** Ends the worker, and with it what it holds in memory. */
  end(reason: unknown = new DOMException("the worker has ended", "AbortError")): void {
    this.#worker.terminate();
    for (const { reject } of this.#questions.splice(0)) reject(reason);
  }
}
