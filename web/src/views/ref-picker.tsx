/** The box that chooses a ref: branches, tags, recent ones, and whatever is typed, with what it resolves to. */
import { useState } from "preact/hooks";
import { getRef, listBranches, listTags } from "../api/endpoints";
import { sentenceOf } from "../api/errors";
import type { Ref, RefDescription } from "../api/schema";
import { agoInWords, shortId } from "../model/text";
import { Name } from "../parts/basics";
import { type Choice, type ChoiceGroup, Chooser } from "../parts/chooser";
import { useDebounced } from "../parts/debounced";
import { Dialog } from "../parts/dialog";
import { type Resource, useResource } from "../parts/resource";

const MOST = 20;
const MOST_RECENT = 5;

/** Refs that were shown in this visit, by repository, the newest first. */
const recent = new Map<string, readonly string[]>();

/** Notes that a ref was shown, for the group "Recent". */
export function noteRef(repository: string, ref: string): void {
  const before = (recent.get(repository) ?? []).filter((name) => name !== ref);
  recent.set(repository, [ref, ...before].slice(0, MOST_RECENT + 1));
}

/** Returns the sentence about what is typed: what it resolves to, or why it does not. */
export function resolutionOf({ value, error }: Resource<RefDescription>): string {
  if (error !== undefined) return sentenceOf(error);
  if (!value) return "";
  const { commit } = value;
  const time = agoInWords(commit.creation_date, Date.now() / 1000);
  return `resolves to ${shortId(commit.id)}, ${time}, by ${commit.committer || "nobody"}`;
}

interface PickerProps {
  readonly repository: string;
  readonly present: string;
  readonly choose: (ref: string) => void;
  readonly close: () => void;
}

/**
 * Returns choices of refs whose names begin with `text`, and a sentence about it. Two requests, and a third for the text itself, if
 * `resolves` says that it may be a ref.
 */
export function useRefChoices(
  repository: string,
  text: string,
  choose: (ref: string) => void,
  resolves: (text: string) => boolean = Boolean,
): { readonly groups: readonly ChoiceGroup[]; readonly status: string } {
  const typed = text.trim();
  const settled = useDebounced(typed);
  const key = repository ? JSON.stringify([repository, settled]) : null;
  const branches = useResource(key, (signal) => listBranches(repository, { prefix: settled, amount: MOST }, signal));
  const tags = useResource(key, (signal) => listTags(repository, { prefix: settled, amount: MOST }, signal));
  const resolution = useResource(resolves(settled) ? key : null, (signal) => getRef(repository, settled, signal));
  const choiceOf = (name: string, hint = ""): Choice => ({
    key: name,
    label: <Name text={name} most={60} />,
    hint,
    choose: () => choose(name),
  });
  const named = (refs: readonly Ref[] = []) => refs.map((ref) => choiceOf(ref.id, shortId(ref.commit_id)));
  const isNamed = [...(branches.value?.results ?? []), ...(tags.value?.results ?? [])].some((ref) => ref.id === typed);
  const mayBe = resolves(typed) && !(typed === settled && resolution.error !== undefined);
  const earlier = (recent.get(repository) ?? []).filter((name) => name.startsWith(typed) && name !== typed);
  const more = branches.value?.pagination.has_more || tags.value?.pagination.has_more;
  const hint = more ? `More than ${MOST} names begin so; type on.` : "";
  return {
    groups: [
      { title: "Typed", choices: mayBe && !isNamed ? [choiceOf(typed)] : [] },
      { title: "Recent", choices: typed ? [] : earlier.map((name) => choiceOf(name)) },
      { title: "Branches", choices: named(branches.value?.results) },
      { title: "Tags", choices: named(tags.value?.results) },
    ],
    status: typed ? (typed === settled ? resolutionOf(resolution) : "…") : hint,
  };
}

/** The box, as a dialog. */
export function RefPicker({ repository, present, choose, close }: PickerProps) {
  const [text, setText] = useState("");
  const { groups, status } = useRefChoices(repository, text, choose);
  return (
    <Dialog label="Choose a ref" close={close} class="box">
      <Chooser
        label="Branch, tag, commit or expression"
        placeholder={`${present}, main~2, main@{yesterday}, 4e1c77a…`}
        text={text}
        onText={setText}
        groups={groups}
        status={status}
      />
    </Dialog>
  );
}
