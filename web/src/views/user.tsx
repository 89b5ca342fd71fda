/** Who is signed in, and what the page remembers about its looks. */
import { getUser, logout } from "../api/endpoints";
import { Name } from "../parts/basics";
import { href, visit } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { density, type Theme, theme, utc } from "../parts/settings";

const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** A menu with the user's name. */
export function User() {
  const user = useResource("user", (signal) => getUser(signal));
  const name = user.value?.user.id ?? "";
  const leave = () => {
    logout().finally(() => {
      announceSignOut();
      visit(href({ screen: "login" }));
    });
  };
  return (
    <details class="menu user">
      <summary>{name ? <Name text={name} most={24} /> : "Settings"}</summary>
      <div class="menu-body">
        <fieldset>
          <legend>Theme</legend>
          {THEMES.map((value) => (
            <label key={value}>
              <input type="radio" name="theme" checked={theme.value === value} onChange={() => (theme.value = value)} />
              {value[0]?.toUpperCase() + value.slice(1)}
            </label>
          ))}
        </fieldset>
        <label>
          <input
            type="checkbox"
            checked={density.value === "compact"}
            onChange={(event) => (density.value = event.currentTarget.checked ? "compact" : "normal")}
          />
          Compact rows
        </label>
        <label>
          <input type="checkbox" checked={utc.value} onChange={(event) => (utc.value = event.currentTarget.checked)} />
          Times in UTC
        </label>
        <button type="button" onClick={leave}>
          Sign out
        </button>
      </div>
    </details>
  );
}

const channel = new BroadcastChannel("graveler");

function announceSignOut(): void {
  channel.postMessage("signed out");
}

channel.onmessage = () => visit(href({ screen: "login" }), true);
