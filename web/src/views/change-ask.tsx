/** A button that asks before it does something that cannot be taken back. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "../parts/basics";

interface AskProps {
  /** The word on the button. */
  readonly title: string;
  readonly question: string;
  readonly action: () => Promise<void>;
}

/** Asks in the button's place; what fails is said there. */
export function Ask({ title, question, action }: AskProps) {
  const [asked, setAsked] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const answer = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (asked) answer.current?.focus();
  }, [asked]);
  if (!asked) {
    return (
      <button type="button" class="quiet" onClick={() => setAsked(true)}>
        {title}
      </button>
    );
  }
  const confirm = () => {
    setBusy(true);
    setError(undefined);
    action()
      .then(() => setAsked(false), setError)
      .finally(() => setBusy(false));
  };
  return (
    <span
      class="ask"
      role="alertdialog"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === "Escape") setAsked(false);
      }}
    >
      {question}
      <button type="button" class="quiet removed" onClick={confirm} disabled={busy}>
        {title}
      </button>
      <button type="button" class="quiet" ref={answer} onClick={() => setAsked(false)} disabled={busy}>
        Keep
      </button>
      {error !== undefined && <Failure error={error} />}
    </span>
  );
}
