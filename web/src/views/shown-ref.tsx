/** The ref that a screen shows: resolved once, by the frame, for the bar and the screen alike. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { getRef, getRepository } from "../api/endpoints";
import type { RefDescription } from "../api/schema";
import type { Address } from "../model/addresses";
import { useResource } from "../parts/resource";

/** A ref and what it is. `ref` is null until the default branch is known, `description` undefined until it has come. */
export interface ShownRef {
  readonly ref: string | null;
  readonly description: RefDescription | undefined;
  /** Why there is no ref or no description. */
  readonly error: unknown;
  /** Asks again, after a change of the branch. */
  readonly reload: () => void;
}

/** The ref that an address names; empty where none is in it. */
export function refOf(address: Address): string {
  return address.query.ref ?? "";
}

/** The frame's ref, for the screens in it. */
export const ShownRefContext = createContext<ShownRef>({
  ref: null,
  description: undefined,
  error: undefined,
  reload: () => undefined,
});

/** Loads the address's ref, or else the repository's default branch. Two requests for the latter, one for the former. */
export function useLoadedRef(address: Address): ShownRef {
  const { repository } = address;
  const named = refOf(address);
  const properties = useResource(named || !repository ? null : repository, (signal) => getRepository(repository, signal));
  const ref = named || properties.value?.default_branch || null;
  const description = useResource(repository && ref !== null ? JSON.stringify([repository, ref]) : null, (signal) =>
    getRef(repository, ref ?? "", signal),
  );
  return {
    ref,
    description: description.value,
    error: properties.error ?? description.error,
    reload: properties.error === undefined ? description.reload : properties.reload,
  };
}

/** Returns the ref that the screen shows. */
export function useShownRef(): ShownRef {
  return useContext(ShownRefContext);
}
