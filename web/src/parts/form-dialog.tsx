/** A dialog with a few fields and one action: it closes once that is done, and says why not otherwise. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Failure } from "./basics";
import { Dialog } from "./dialog";

/** A field for text. */
export interface TextField {
  readonly name: string;
  readonly label: string;
  readonly value?: string;
}

interface FormDialogProps {
  readonly title: string;
  readonly children?: ComponentChildren;
  readonly fields?: readonly TextField[];
  /** The word on the button. */
  readonly verb: string;
  /** Whether the action takes something away. */
  readonly removes?: boolean;
  /** Gets the fields' values by their names. */
  readonly action: (values: Readonly<Record<string, string>>) => Promise<unknown>;
  readonly close: () => void;
}

/** Draws the dialog. */
export function FormDialog({ title, children, fields = [], verb, removes = false, action, close }: FormDialogProps) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setError(undefined);
    action(Object.fromEntries(fields.map(({ name }) => [name, String(data.get(name))])))
      .then(close, setError)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog label={title} close={close}>
      <h2>{title}</h2>
      {children}
      <form class="form" onSubmit={submit}>
        {fields.map(({ name, label, value = "" }) => (
          <label key={name}>
            {label}
            <input name={name} required spellcheck={false} autocomplete="off" defaultValue={value} />
          </label>
        ))}
        {error !== undefined && <Failure error={error} />}
        <div class="buttons">
          <button type="submit" class={removes ? "removes" : "primary"} disabled={busy}>
            {verb}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
