/** What stands on every screen: the bar with the repository's sections, the bar with the ref, keys, and the sign-in that a 401 needs. */
import "./frame.css";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onBusy, onSignInNeeded } from "../api/client";
import type { Address } from "../model/addresses";
import { folders } from "../model/text";
import { Name } from "../parts/basics";
import { focusFilter, focusRow, selectRow, useKeys } from "../parts/keys";
import { go, Link, type Target } from "../parts/navigation";
import { GoTo } from "./go-to";
import { KeyList } from "./key-list";
import { RefBar } from "./ref-bar";
import { SECTIONS } from "./sections";
import { askToSignIn, user } from "./session";
import { type ShownRef, ShownRefContext, useLoadedRef, useShownRef } from "./shown-ref";
import { SignInOver } from "./sign-in";
import { UncommittedCount } from "./uncommitted-count";
import { User } from "./user";

/** Draws the frame around a screen. */
export function Frame({ address, children }: { readonly address: Address; readonly children: ComponentChildren }) {
  const signedIn = useSignIn();
  const shown = useLoadedRef(address);
  return (
    <ShownRefContext.Provider value={shown}>
      <button type="button" class="skip" onClick={focusContent}>
        Skip to the content
      </button>
      <BusyLine />
      <header class="bar">
        <Link to={{ screen: "repositories" }} class="home">
          graveler
        </Link>
        {address.repository && <Sections address={address} shown={shown} />}
        <Boxes address={address} />
        <User />
      </header>
      {address.repository && <RefBar address={address} />}
      <div id="content" tabIndex={-1}>
        {children}
      </div>
      {signedIn && <SignInOver done={signedIn} />}
    </ShownRefContext.Provider>
  );
}

function focusContent(): void {
  document.getElementById("content")?.focus();
}

/** Waits for a 401; returns what ends the sign-in over the page while there is one. Who never was signed in gets the sign-in's screen. */
function useSignIn(): (() => void) | undefined {
  const [signedIn, setSignedIn] = useState<(() => void) | undefined>();
  useEffect(() => {
    let running: Promise<void> | undefined;
    onSignInNeeded(() => {
      if (!user.value) {
        askToSignIn();
        return new Promise<void>(() => undefined); // its component is gone with the screen
      }
      running ??= new Promise<void>((resolve) => {
        setSignedIn(() => () => {
          setSignedIn(undefined);
          running = undefined;
          resolve();
        });
      });
      return running;
    });
    return () => onSignInNeeded(undefined);
  }, []);
  return signedIn;
}

const LATE_MS = 150;

function BusyLine() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    onBusy((busy) => {
      clearTimeout(timer);
      if (busy) timer = setTimeout(() => setLate(true), LATE_MS);
      else setLate(false);
    });
    return () => {
      clearTimeout(timer);
      onBusy(undefined);
    };
  }, []);
  return <div class="busy" hidden={!late} />;
}

function Sections({ address, shown }: { readonly address: Address; readonly shown: ShownRef }) {
  const { repository } = address;
  const query = { ref: shown.ref ?? "" };
  return (
    <>
      <Link to={{ screen: "objects", repository, query }} class="repository">
        <Name text={repository} most={40} />
      </Link>
      <nav aria-label="Sections">
        {SECTIONS.map(({ screen, title, includes }) => (
          <Link
            key={screen}
            to={{ screen, repository, query }}
            aria-current={includes.includes(address.screen) ? "page" : undefined}
          >
            {title}
            {screen === "uncommitted" && <UncommittedCount repository={repository} shown={shown} />}
          </Link>
        ))}
      </nav>
    </>
  );
}

/** Returns where `u` leads: the folder above, the repository's root, the repositories. */
function above({ screen, repository, query }: Address, ref: string): Target {
  const path = query.path ?? "";
  const inRepository = { repository, query: { ref } } as const;
  if ((screen === "objects" || screen === "object") && path) {
    const folder = folders(path.replace(/\/$/, "")).at(-1)?.[1] ?? "";
    return { screen: "objects", repository, query: { ref, path: folder } };
  }
  if (screen === "commit") return { screen: "commits", ...inRepository };
  if (screen === "revert" || screen === "reflog") return { screen: "branches", ...inRepository };
  return screen === "objects" || !repository ? { screen: "repositories" } : { screen: "objects", ...inRepository };
}

type Box = "" | "go" | "path" | "keys";

function Boxes({ address }: { readonly address: Address }) {
  const ref = useShownRef().ref ?? "";
  const { repository } = address;
  const [box, setBox] = useState<Box>("");
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      if (document.querySelector("dialog[open]")) return;
      event.preventDefault();
      setBox("go");
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const sections = SECTIONS.map(({ key, screen }) => [`g ${key}`, () => go({ screen, repository, query: { ref } })]);
  useKeys({
    "?": () => setBox("keys"),
    "/": focusFilter,
    j: () => focusRow(1),
    k: () => focusRow(-1),
    x: selectRow,
    u: () => go(above(address, ref)),
    "g r": () => go({ screen: "repositories" }),
    ...(repository ? { t: () => setBox("path"), ...Object.fromEntries(sections) } : {}),
  });
  const close = () => setBox("");
  return (
    <>
      <button type="button" class="quiet go-button" aria-haspopup="dialog" onClick={() => setBox("go")}>
        Go to <kbd>Ctrl K</kbd>
      </button>
      {(box === "go" || box === "path") && <GoTo address={address} paths={box === "path"} close={close} />}
      {box === "keys" && <KeyList close={close} />}
    </>
  );
}
