/** What the page remembers in this browser: theme and density, nothing else. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type Density = "normal" | "compact";

export const theme = signal<Theme>(remembered("theme", ["system", "light", "dark"]));
export const density = signal<Density>(remembered("density", ["normal", "compact"]));
/** Whether times are shown in UTC instead of the reader's zone; for this visit only. */
export const utc = signal(false);
/** Whether single keys do something; for this visit only. */
export const keysOn = signal(true);

function remembered<T extends string>(name: string, allowed: readonly [T, ...T[]]): T {
  try {
    return allowed.find((value) => value === localStorage.getItem(name)) ?? allowed[0];
  } catch {
    return allowed[0]; // the browser lets this page store nothing
  }
}

function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    return; // it holds for this visit then
  }
}

effect(() => {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  remember("theme", theme.value);
});

effect(() => {
  document.documentElement.dataset.density = density.value;
  remember("density", density.value);
});
