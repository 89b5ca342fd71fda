/** The bar below the sections: which ref is shown, where in it, as of when, and how to link to exactly this. */
import { signal } from "@preact/signals";
import { type ComponentChildren, Fragment } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { RefDescription } from "../api/schema";
import type { Address } from "../model/addresses";
import { fieldTime, formatRefTime, parseRefTime, type RefTime, readFieldTime, timeOf } from "../model/ref-times";
import { exactTime, folders } from "../model/text";
import { CommitId, Name } from "../parts/basics";
import { Icon } from "../parts/icons";
import { useKeys } from "../parts/keys";
import { go, href, Link, type Target } from "../parts/navigation";
import { utc } from "../parts/settings";
import { BranchFrom } from "./branch-creation";
import { noteRef, RefPicker } from "./ref-picker";
import { isWriter } from "./session";
import { type ShownRef, useShownRef } from "./shown-ref";

const inBar = signal<ComponentChildren>(null);

/** Shows its children in the bar, behind the ref, while it is in a screen. */
export function InRefBar({ children }: { readonly children: ComponentChildren }) {
  useLayoutEffect(() => {
    inBar.value = children;
  }, [children]);
  useLayoutEffect(
    () => () => {
      inBar.value = null;
    },
    [],
  );
  return null;
}

/** Returns an address that shows another ref: the same screen, if it shows a ref, without the place in its list. */
function withRef(address: Address, ref: string): Target {
  const { screen, repository, query } = address;
  if (["commit", "branches", "tags", "revert"].includes(screen)) return { screen: "objects", repository, query: { ref } };
  return { ...address, query: { ...query, ref, after: "" } };
}

/** The bar of a repository's screens. */
export function RefBar({ address }: { readonly address: Address }) {
  const shown = useShownRef();
  const { ref, description } = shown;
  const [picking, setPicking] = useState(false);
  const time = ref === null ? undefined : parseRefTime(ref);
  useKeys({ b: () => setPicking(true) });
  useEffect(() => {
    if (description) noteRef(address.repository, description.id);
  }, [address.repository, description]);
  const choose = (to: string) => {
    setPicking(false);
    go(withRef(address, to));
  };
  return (
    <>
      <section class="ref-bar" aria-label="Ref">
        <button
          type="button"
          class="ref-button"
          aria-haspopup="dialog"
          aria-label={`Ref: ${ref ?? ""}`}
          onClick={() => setPicking(true)}
        >
          <Icon name={description?.type === "tag" ? "tag" : description?.type === "commit" ? "commit" : "branch"} />
          <Name text={ref ?? "…"} most={32} />
          <Icon name="down" />
        </button>
        <Path address={address} ref_={ref ?? ""} />
        {inBar.value}
        {description && <Marks address={address} description={description} />}
        <span class="ref-end">
          {ref !== null && (time || description?.type === "branch") && (
            <AsOf key={ref} branch={time?.branch ?? ref} time={time} choose={choose} />
          )}
          {description && isWriter.value && !description.read_only && SHOWS_REF.includes(address.screen) && (
            <BranchFrom repository={address.repository} source={description.id} isCommit={description.type === "commit"} />
          )}
          {description && <PermanentLink address={address} description={description} />}
        </span>
      </section>
      {time && description && <Past repository={address.repository} time={time} shown={shown} choose={choose} />}
      {picking && (
        <RefPicker repository={address.repository} present={ref ?? ""} choose={choose} close={() => setPicking(false)} />
      )}
    </>
  );
}

const SHOWS_REF = ["objects", "object", "commits", "uncommitted"];
const WITH_PATH = ["objects", "object"];

function Path({ address, ref_ }: { readonly address: Address; readonly ref_: string }) {
  const { repository, screen } = address;
  if (!WITH_PATH.includes(screen)) return null;
  const path = address.query.path ?? "";
  const above = folders(path);
  const name = path.slice(above.at(-1)?.[1].length ?? 0);
  return (
    <nav class="path" aria-label="Path">
      <Link to={{ screen: "objects", repository, query: { ref: ref_ } }}>
        <Name text={repository} most={40} />
      </Link>
      {above.map(([folder, prefix]) => (
        <Fragment key={prefix}>
          <span class="hint">/</span>
          <Link to={{ screen: "objects", repository, query: { ref: ref_, path: prefix } }}>
            <Name text={folder.slice(0, -1)} most={40} />
          </Link>
        </Fragment>
      ))}
      {name && (
        <>
          <span class="hint">/</span>
          <Name text={name} most={60} />
        </>
      )}
    </nav>
  );
}

function Marks({ address, description }: { readonly address: Address; readonly description: RefDescription }) {
  const { repository } = address;
  return (
    <>
      {description.uncommitted && (
        <Link to={{ screen: "uncommitted", repository, query: { ref: description.id } }} class="badge changed">
          ~ uncommitted
        </Link>
      )}
      {description.protected && (
        <span class="badge" title="The repository's settings protect this branch from direct changes">
          protected
        </span>
      )}
      {description.read_only && (
        <span class="badge" title="Nothing in this repository can be changed">
          read-only
        </span>
      )}
    </>
  );
}

const AGES: readonly (readonly [title: string, seconds: number])[] = [
  ["An hour ago", 3600],
  ["A day ago", 86_400],
  ["A week ago", 604_800],
];

interface AsOfProps {
  readonly branch: string;
  readonly time: RefTime | undefined;
  readonly choose: (ref: string) => void;
}

function AsOf({ branch, time, choose }: AsOfProps) {
  const now = Date.now() / 1000;
  const chosen = time && timeOf(time.words);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const value = new FormData(event.currentTarget as HTMLFormElement).get("time");
    const seconds = readFieldTime(String(value), utc.value);
    if (seconds !== undefined) choose(formatRefTime(branch, seconds));
  };
  return (
    <details class="menu">
      <summary>
        <span class="hint">as of:</span> {time ? (chosen === undefined ? time.words : exactTime(chosen, utc.value)) : "now"}{" "}
        <Icon name="down" />
      </summary>
      <div class="menu-body">
        <form class="form" onSubmit={submit}>
          <label>
            Time, {utc.value ? "in UTC" : "in your zone"}
            <input type="datetime-local" name="time" required defaultValue={fieldTime(chosen ?? now, utc.value)} />
          </label>
          <button type="submit">Look</button>
        </form>
        {AGES.map(([title, seconds]) => (
          <button
            type="button"
            class="quiet"
            key={title}
            onClick={() => choose(formatRefTime(branch, Math.floor(now - seconds)))}
          >
            {title}
          </button>
        ))}
        {time && (
          <button type="button" class="quiet" onClick={() => choose(branch)}>
            Now
          </button>
        )}
      </div>
    </details>
  );
}

interface PastProps {
  readonly repository: string;
  readonly time: RefTime;
  readonly shown: ShownRef;
  readonly choose: (ref: string) => void;
}

function Past({ repository, time, shown, choose }: PastProps) {
  const seconds = timeOf(time.words);
  const moves = /^\d+$/.test(time.words);
  return (
    <p class="note">
      You look at <Name text={time.branch} most={40} />{" "}
      {moves
        ? `before its last ${time.words === "1" ? "move" : `${time.words} moves`}`
        : `as of ${seconds === undefined ? time.words : exactTime(seconds, utc.value)}`}{" "}
      {shown.description && (
        <>
          (<CommitId repository={repository} id={shown.description.commit_id} />)
        </>
      )}
      .{" "}
      <button type="button" class="as-link" onClick={() => choose(time.branch)}>
        Back to now
      </button>
    </p>
  );
}

function PermanentLink({ address, description }: { readonly address: Address; readonly description: RefDescription }) {
  const [state, setState] = useState<"" | "copied" | "shown">("");
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(""), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const target = withRef(address, description.commit_id);
  const copy = () => {
    if (description.type !== "commit") go(target);
    navigator.clipboard.writeText(href(target)).then(
      () => setState("copied"),
      () => setState("shown"),
    );
  };
  useKeys({ y: copy });
  return (
    <button
      type="button"
      class="quiet"
      onClick={copy}
      aria-live="polite"
      title="Show and link to this commit, whatever becomes of the ref"
    >
      {state === "copied" ? "Copied" : state === "shown" ? "It is the address now" : "Copy permanent link"}
    </button>
  );
}
