/** Signing in with an access key: as a screen, and over a page whose session has ended. */
import { useState } from "preact/hooks";
import { login } from "../api/endpoints";
import { type Address, safeNext } from "../model/addresses";
import { Failure } from "../parts/basics";
import { href, useTitle, visit } from "../parts/navigation";

/** The sign-in screen; afterwards the page goes to `next`, or to the repositories. */
export function SignIn({ address }: { readonly address: Address }) {
  useTitle("Sign in");
  const next = safeNext(address.query.next ?? "");
  return (
    <main class="sign-in">
      <h1>graveler</h1>
      <SignInForm done={() => visit(next || href({ screen: "repositories" }), true)} />
    </main>
  );
}

/** The same form over the page, which goes on where it was. */
export function SignInOver({ done }: { readonly done: () => void }) {
  return (
    <dialog class="over" open aria-label="Sign in">
      <p>Your session has ended. Sign in to go on where you were.</p>
      <SignInForm done={done} />
    </dialog>
  );
}

function SignInForm({ done }: { readonly done: () => void }) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setError(undefined);
    login(String(fields.get("key")).trim(), String(fields.get("secret")).trim(), fields.get("window") === "on")
      .then(done, setError)
      .finally(() => setBusy(false));
  };
  return (
    <form class="form" onSubmit={submit}>
      <label>
        Access key ID
        <input name="key" required autocomplete="username" spellcheck={false} />
      </label>
      <label>
        Secret access key
        <input name="secret" type="password" required autocomplete="current-password" />
      </label>
      <label class="choice">
        <input name="window" type="checkbox" defaultChecked />
        Stay signed in only until I close the window
      </label>
      {error !== undefined && <Failure error={error} />}
      <button type="submit" class="primary" disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      <p class="hint">
        An administrator makes a key with <code>graveler keys create NAME --role ROLE</code>. For a lake in a folder,{" "}
        <code>graveler ui</code> needs none.
      </p>
    </form>
  );
}
