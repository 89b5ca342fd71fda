/** Who is signed in, in this tab; the other tabs hear of each sign-in and sign-out. */
import { computed, signal } from "@preact/signals";
import { logout } from "../api/endpoints";
import type { CurrentUserRights } from "../api/schema";
import { address, go, presentPath } from "../parts/navigation";

type News = "signed in" | "signed out";

const channel = new BroadcastChannel("graveler");
const listeners = new Set<() => void>();

/** The user, once the server has said who it is; undefined while nobody is signed in. */
export const user = signal<CurrentUserRights | undefined>(undefined);

/** Whether the user's role allows changes; true while it is unknown, since the server decides. */
export const isWriter = computed(() => user.value?.role !== "reader" && user.value?.role !== "checker");

/** Whether the user's role allows changes of repositories and keys; true while it is unknown. */
export const isAdmin = computed(() => user.value === undefined || user.value.role === "admin");

/** The number of sign-ins, here and in other tabs; the user is asked for again after each. */
export const signIns = signal(0);

/** Tells this page and the other tabs that somebody has signed in here. */
export function announceSignIn(): void {
  signIns.value += 1;
  channel.postMessage("signed in" satisfies News);
}

/** Calls `listener` when somebody signs in in another tab; returns what ends that. */
export function onSignInElsewhere(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Ends the session on the server and in all tabs. Throws what keeps the server from ending it. */
export async function signOut(): Promise<void> {
  await logout();
  channel.postMessage("signed out" satisfies News);
  user.value = undefined;
  go({ screen: "login" });
}

/** Goes to the sign-in's screen, and from there back to the present address. */
export function askToSignIn(): void {
  if (address.value.screen !== "login") go({ screen: "login", query: { next: presentPath() } }, true);
}

channel.onmessage = ({ data }: MessageEvent<News>) => {
  if (data === "signed out") {
    user.value = undefined;
    askToSignIn();
    return;
  }
  signIns.value += 1;
  for (const listener of listeners) listener();
};
