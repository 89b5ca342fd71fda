/** The whole page: the frame, and in it the screen that the address names. Screens beyond the first are loaded when they are opened. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Address, Screen } from "../model/addresses";
import { Failure, Waiting } from "../parts/basics";
import { address } from "../parts/navigation";
import { Absent } from "./absent";
import { Folder } from "./folder";
import { Frame } from "./frame";
import { Repositories } from "./repositories";
import { SignIn } from "./sign-in";

/** A screen; it draws the address that it is given, which is the present one. */
export type ScreenComponent = ComponentType<{ readonly address: Address }>;

const AT_ONCE: Partial<Record<Screen, ScreenComponent>> = {
  repositories: Repositories,
  objects: Folder,
  login: SignIn,
  absent: Absent,
};

const LATER: Partial<Record<Screen, () => Promise<ScreenComponent>>> = {
  object: () => import("./object").then((module) => module.ObjectScreen),
  commits: () => import("./history").then((module) => module.History),
  commit: () => import("./commit").then((module) => module.CommitScreen),
  compare: () => import("./compare").then((module) => module.Compare),
  uncommitted: () => import("./uncommitted").then((module) => module.Uncommitted),
  revert: () => import("./commit-revert").then((module) => module.Revert),
  branches: () => import("./branches").then((module) => module.Branches),
  tags: () => import("./tags").then((module) => module.Tags),
  reflog: () => import("./reflog").then((module) => module.ReferenceLog),
};

/** The page. */
export function Page() {
  const present = address.value;
  if (present.screen === "login") return <SignIn address={present} />;
  return (
    <Frame address={present}>
      <ScreenOf address={present} />
    </Frame>
  );
}

function ScreenOf({ address: present }: { readonly address: Address }) {
  const { screen } = present;
  const [loaded, setLoaded] = useState<Partial<Record<Screen, ScreenComponent>>>(AT_ONCE);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const load = LATER[screen];
    if (loaded[screen] || !load) return;
    setError(undefined);
    load().then((component) => setLoaded((before) => ({ ...before, [screen]: component })), setError);
  }, [screen, loaded]);
  if (error) return <Failure error={error} retry={() => location.reload()} />;
  const Component = loaded[screen] ?? (LATER[screen] ? undefined : Absent);
  if (!Component) return <Waiting>Loading the page…</Waiting>;
  return <Component key={`${screen} ${present.repository}`} address={present} />;
}
