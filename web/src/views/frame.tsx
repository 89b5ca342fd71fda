/** What stands on every screen: the bar with the repository's sections, the bar with the ref, and the sign-in that a 401 needs. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { onSignInNeeded } from "../api/client";
import { getRepository } from "../api/endpoints";
import type { Address, Screen } from "../model/addresses";
import { Name } from "../parts/basics";
import { Link } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { SignInOver } from "./sign-in";
import { User } from "./user";

const SECTIONS: readonly (readonly [screen: Screen, title: string, includes: readonly Screen[]])[] = [
  ["objects", "Data", ["objects", "object"]],
  ["commits", "History", ["commits", "commit"]],
  ["uncommitted", "Changes", ["uncommitted"]],
  ["compare", "Compare", ["compare"]],
  ["branches", "Branches", ["branches", "revert", "reflog"]],
  ["tags", "Tags", ["tags"]],
];

/** The ref that an address names; empty where none is in it. */
export function refOf(address: Address): string {
  return address.query.ref ?? "";
}

/** Draws the frame around a screen. */
export function Frame({ address, children }: { readonly address: Address; readonly children: ComponentChildren }) {
  const [signedIn, setSignedIn] = useState<(() => void) | undefined>();
  useEffect(() => {
    let running: Promise<void> | undefined;
    onSignInNeeded(() => {
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
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="bar">
        <Link to={{ screen: "repositories" }} class="home">
          graveler
        </Link>
        {address.repository && <Sections address={address} />}
        <User />
      </header>
      <div id="content" tabIndex={-1}>
        {children}
      </div>
      {signedIn && <SignInOver done={signedIn} />}
    </>
  );
}

function Sections({ address }: { readonly address: Address }) {
  const { repository } = address;
  const ref = refOf(address);
  return (
    <>
      <Link to={{ screen: "objects", repository }} class="repository">
        <Name text={repository} most={40} />
      </Link>
      <nav aria-label="Sections">
        {SECTIONS.map(([screen, title, includes]) => (
          <Link
            key={screen}
            to={{ screen, repository, query: { ref } }}
            aria-current={includes.includes(address.screen) ? "page" : undefined}
          >
            {title}
          </Link>
        ))}
      </nav>
    </>
  );
}

/** Returns the ref that a screen shows: the address's, or else the repository's default branch, once that is known. */
export function useShownRef(address: Address): { readonly ref: string | null; readonly error: unknown } {
  const named = refOf(address);
  const repository = useResource(named ? null : address.repository, (signal) => getRepository(address.repository, signal));
  return { ref: named || repository.value?.default_branch || null, error: repository.error };
}
