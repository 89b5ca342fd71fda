/** Where the page is: the address as a signal, links that change it without loading the page anew, and the document's title. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { type Address, formatAddress, parseAddress } from "../model/addresses";

const base = new URL(document.baseURI);

/** The current address. */
export const address = signal<Address>(read());

function read(): Address {
  const path = location.pathname.startsWith(base.pathname) ? location.pathname.slice(base.pathname.length) : location.pathname;
  return parseAddress(path, location.search);
}

/** An address to link to: a screen with what differs from an empty one. */
export type Target = Pick<Address, "screen"> & Partial<Address>;

/** Returns the href of a target. */
export function href(target: Target): string {
  return new URL(formatAddress(target), base).href;
}

/** Goes to a target; with `replace` the browser's Back does not return to the present address. */
export function go(target: Target, replace = false): void {
  visit(href(target), replace);
}

/** Goes to an address of this page as a string, such as a `next=` that `safeNext` has let through. */
export function visit(url: string, replace = false): void {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const before = address.value;
  address.value = read();
  if (before.screen !== address.value.screen || before.subject !== address.value.subject) scrollTo(0, 0);
}

/** Returns the present address as a path of this origin, such as a sign-in's `next=`. */
export function presentPath(): string {
  return location.pathname + location.search;
}

/** Changes parameters of the present address; an empty value removes one. */
export function setQuery(changes: Readonly<Record<string, string>>, replace = false): void {
  go({ ...address.value, query: { ...address.value.query, ...changes } }, replace);
}

addEventListener("popstate", () => {
  address.value = read();
});

interface LinkProps {
  readonly to: Target;
  readonly children: ComponentChildren;
  readonly class?: string;
  readonly title?: string;
  readonly "aria-current"?: "page" | undefined;
  readonly "aria-expanded"?: boolean;
}

/** A link within the page. Clicks that ask for a new tab or window are the browser's. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.defaultPrevented) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a {...rest} href={href(to)} onClick={follow}>
      {children}
    </a>
  );
}

/** Sets the document's title while a screen is shown: its own words first. */
export function useTitle(...words: readonly string[]): void {
  const title = [...words.filter(Boolean), "graveler"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}
