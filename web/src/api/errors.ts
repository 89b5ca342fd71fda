/** Failures of requests, in the API's own words. */

/** A refused request: `message` is the API's sentence, `detail` names the value and what to do, `code` is for programs. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string,
    readonly detail: string,
    readonly fields: Readonly<Record<string, unknown>>,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** The sentence to show: the message and, if it says more, the detail. */
  get sentence(): string {
    return this.detail && this.detail !== this.message ? `${this.message}: ${this.detail}` : this.message;
  }
}

/** The server did not answer at all. */
export class UnreachableError extends Error {
  constructor(readonly origin: string) {
    super(`${origin} does not answer. Is the server still running?`);
    this.name = "UnreachableError";
  }
}

/** A store did not let this page write; the browser does not say why. */
export class RefusedUploadError extends Error {
  constructor(readonly store: string) {
    super(
      `The store at ${store} took no upload from this page. It does not answer, or its CORS rules do not name ${location.origin}. ` +
        "`graveler put` needs no such rule.",
    );
    this.name = "RefusedUploadError";
  }
}

/** Returns whether the failure means only that nobody waits for the answer any more. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Returns the sentence to show for a failure. */
export function sentenceOf(error: unknown): string {
  if (error instanceof ApiError) return error.sentence;
  return error instanceof Error ? error.message : String(error);
}
