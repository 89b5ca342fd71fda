/** Who is signed in, and what the page remembers about its looks. */
import { useEffect, useState } from "preact/hooks";
import { getUser } from "../api/endpoints";
import type { CurrentUserRights } from "../api/schema";
import { Failure, Name } from "../parts/basics";
import { Icon } from "../parts/icons";
import { useResource } from "../parts/resource";
import { density, keysOn, type Theme, theme, utc } from "../parts/settings";
import { signIns, signOut, user } from "./session";

/** What roles may do, as `docs/access.md` says. */
const RIGHTS = {
  reader: "Reader: sees everything, changes nothing",
  checker: "Checker: sees everything, posts statuses",
  writer: "Writer: changes objects, branches, tags and commits",
  admin: "Admin: changes everything, also repositories, settings and keys",
} as const satisfies Readonly<Record<CurrentUserRights["role"], string>>;

const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** A menu with the user's name. */
export function User() {
  const present = useResource(`user ${signIns.value}`, getUser);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    if (present.value) user.value = present.value;
  }, [present.value]);
  const name = user.value?.user.id ?? "";
  return (
    <details class="menu user">
      <summary>
        {name ? <Name text={name} most={24} /> : "Settings"} <Icon name="down" />
      </summary>
      <div class="menu-body">
        {user.value && <Rights user={user.value} />}
        <fieldset>
          <legend>Theme</legend>
          {THEMES.map((value) => (
            <label key={value} class="choice">
              <input type="radio" name="theme" checked={theme.value === value} onChange={() => (theme.value = value)} />
              {value[0]?.toUpperCase() + value.slice(1)}
            </label>
          ))}
        </fieldset>
        <label class="choice">
          <input
            type="checkbox"
            checked={density.value === "compact"}
            onChange={(event) => (density.value = event.currentTarget.checked ? "compact" : "normal")}
          />
          Compact rows
        </label>
        <label class="choice">
          <input type="checkbox" checked={utc.value} onChange={(event) => (utc.value = event.currentTarget.checked)} />
          Times in UTC
        </label>
        <label class="choice">
          <input type="checkbox" checked={keysOn.value} onChange={(event) => (keysOn.value = event.currentTarget.checked)} />
          <span>
            Single keys; <kbd>?</kbd> lists them
          </span>
        </label>
        <button type="button" onClick={() => signOut().catch(setError)}>
          Sign out
        </button>
        {error !== undefined && <Failure error={error} />}
      </div>
    </details>
  );
}

function Rights({ user: { role, repositories, branches } }: { readonly user: CurrentUserRights }) {
  return (
    <p class="rights">
      {RIGHTS[role]}
      <Patterns title="only repositories" patterns={repositories} />
      <Patterns title="changes only branches" patterns={branches} />
    </p>
  );
}

function Patterns({ title, patterns }: { readonly title: string; readonly patterns: readonly string[] }) {
  if (!patterns.length) return null;
  return (
    <span class="hint">
      {title} <Name text={patterns.join(", ")} />
    </span>
  );
}
