/** Signing in with an access key, or with the address that `graveler ui` shows: as a screen, and over a page whose session has ended. */
import { useEffect, useState } from "preact/hooks";
import { getCapabilities, getUser, login, loginByCode } from "../api/endpoints";
import { type Address, safeNext } from "../model/addresses";
import { Failure } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { href, useTitle, visit } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { announceSignIn, onSignInElsewhere } from "./session";

/** The sign-in screen; afterwards the page goes to `next`, or to the repositories. */
export function SignIn({ address }: { readonly address: Address }) {
  useTitle("Sign in");
  const next = safeNext(address.query.next ?? "");
  const leave = () => visit(next || href({ screen: "repositories" }), true);
  const done = () => {
    announceSignIn();
    leave();
  };
  const [code] = useState(takeCode);
  return (
    <main class="sign-in">
      <h1>graveler</h1>
      {code ? <CodeSignIn code={code} done={done} /> : <Form done={done} elsewhere={leave} />}
    </main>
  );
}

/** The same form over the page, which goes on where it was. */
export function SignInOver({ done }: { readonly done: () => void }) {
  return (
    <Dialog label="Sign in">
      <p>Your session has ended. Sign in to go on where you were.</p>
      <Form
        done={() => {
          announceSignIn();
          done();
        }}
        elsewhere={done}
      />
    </Dialog>
  );
}

/** Returns the one-time code of the address's fragment, and removes it from the address and the history. */
function takeCode(): string {
  const code = new URLSearchParams(location.hash.slice(1)).get("code") ?? "";
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

function CodeSignIn({ code, done }: { readonly code: string; readonly done: () => void }) {
  const [error, setError] = useState<unknown>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the code is good once.
  useEffect(() => {
    // An address that is opened once more in the browser that it signed in leads on.
    loginByCode(code)
      .catch((failure: unknown) =>
        getUser().catch(() => {
          throw failure;
        }),
      )
      .then(done, setError);
  }, []);
  return error === undefined ? <p role="status">Signing in…</p> : <Failure error={error} />;
}

interface FormProps {
  readonly done: () => void;
  /** Called when somebody signs in in another tab. */
  readonly elsewhere: () => void;
}

function Form({ done, elsewhere }: FormProps) {
  const capabilities = useResource("capabilities", getCapabilities);
  const keys = capabilities.value?.access_keys !== false;
  // A session of `graveler ui` ends with its process, and the next one may show another lake: what was meant for this one is not sent there.
  useEffect(() => onSignInElsewhere(keys ? elsewhere : () => location.reload()), [keys, elsewhere]);
  if (keys) return <KeyForm done={done} />;
  return (
    <p>
      This is the page of <code>graveler ui</code>, which signs in by the address that it shows, once. Run it again for another
      one.
    </p>
  );
}

function KeyForm({ done }: { readonly done: () => void }) {
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
