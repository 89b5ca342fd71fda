/** The small parts that every screen uses. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError, sentenceOf } from "../api/errors";
import { ago, exactTime, shortened, shortId, subject, visible } from "../model/text";
import { Link } from "./navigation";
import { utc } from "./settings";

/** A name that a user chose: isolated from the text's direction, marks made visible, the whole name as its title. */
export function Name({ text, most = 80 }: { readonly text: string; readonly most?: number }) {
  const shown = visible(text);
  const short = shortened(shown, most);
  return (
    <bdi class="name" title={short === shown && shown === text ? undefined : shown}>
      {short || "(no name)"}
    </bdi>
  );
}

/** The first line of a commit's message, as running text; the whole line is its title if it was shortened. */
export function Subject({ message, most = 100 }: { readonly message: string; readonly most?: number }) {
  const line = visible(subject(message));
  const short = shortened(line, most);
  return <bdi title={short === line ? undefined : line}>{short || "(no message)"}</bdi>;
}

/** How long ago a time is (Unix seconds), with the exact time as its title. */
export function When({ time }: { readonly time: number }) {
  const exact = exactTime(time, utc.value);
  return (
    <time dateTime={new Date(time * 1000).toISOString()} title={exact} class="when">
      {utc.value ? exact : ago(time, Date.now() / 1000)}
    </time>
  );
}

/** A commit's ID: seven digits that lead to the commit. */
export function CommitId({ repository, id }: { readonly repository: string; readonly id: string }) {
  return (
    <Link to={{ screen: "commit", repository, subject: id }} class="id" title={shortId(id, 12)}>
      {shortId(id)}
    </Link>
  );
}

/** A button that copies text, and says so where it stands. */
export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [done, setDone] = useState<"" | "done" | "failed">("");
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(""), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setDone("done"),
      () => setDone("failed"),
    );
  };
  return (
    <button type="button" class="quiet" onClick={copy} aria-live="polite">
      {done === "done" ? "Copied" : done === "failed" ? "Press Ctrl+C" : label}
    </button>
  );
}

/** A line of code or several, with a button that copies them. */
export function Code({ text }: { readonly text: string }) {
  return (
    <div class="code">
      <pre>
        <code>{text}</code>
      </pre>
      <Copy text={text} />
    </div>
  );
}

/** Why something is not there: the API's sentence, its code, and a way to try again. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: (() => void) | undefined }) {
  return (
    <div class="failure" role="alert">
      <p>
        {sentenceOf(error)}
        {error instanceof ApiError && error.code && <code class="code-name">{error.code}</code>}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A sentence for work that takes longer than a second, with a way to end it; nothing before. */
export function Waiting({ children, cancel }: { readonly children: ComponentChildren; readonly cancel?: () => void }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 1000);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return <div class="waiting" aria-busy="true" />;
  return (
    <div class="waiting" aria-busy="true" role="status">
      {children}
      {cancel && (
        <button type="button" class="quiet" onClick={cancel}>
          Cancel
        </button>
      )}
    </div>
  );
}
