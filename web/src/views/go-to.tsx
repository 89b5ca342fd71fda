/** The box behind ⌘K: goes to a page, a path, a ref, a commit or a repository. */
import { useState } from "preact/hooks";
import { listObjects, listRepositories } from "../api/endpoints";
import type { Address } from "../model/addresses";
import { Name } from "../parts/basics";
import { type ChoiceGroup, Chooser } from "../parts/chooser";
import { useDebounced } from "../parts/debounced";
import { Dialog } from "../parts/dialog";
import { go, type Target } from "../parts/navigation";
import { useResource } from "../parts/resource";
import { useRefChoices } from "./ref-picker";
import { SECTIONS } from "./sections";
import { useShownRef } from "./shown-ref";

const MOST = 10;
const COMMIT_ID = /^[0-9a-f]{4,64}$/;
const EXPRESSION = /^[^/]+[~^@]/;

interface GoToProps {
  readonly address: Address;
  /** Whether only paths are meant, as by the key `t`. */
  readonly paths: boolean;
  readonly close: () => void;
}

/** The box, as a dialog. */
export function GoTo({ address, paths, close }: GoToProps) {
  const { repository } = address;
  const [text, setText] = useState("");
  const visit = (target: Target) => {
    close();
    go(target);
  };
  const pathChoices = usePathChoices(repository, text, visit);
  const refs = useRefChoices(
    paths || !text ? "" : repository,
    text,
    (ref) => {
      if (COMMIT_ID.test(ref)) visit({ screen: "commit", repository, subject: ref });
      else visit({ screen: "objects", repository, query: { ref } });
    },
    (typed) => COMMIT_ID.test(typed) || EXPRESSION.test(typed),
  );
  const repositories = useRepositoryChoices(paths ? null : text, visit);
  const pages = paths ? [] : pageChoices(repository, useShownRef().ref ?? "", text, visit);
  return (
    <Dialog label={paths ? "Go to a path" : "Go to"} close={close} class="box">
      <Chooser
        label={paths ? "Path" : "Page, path, ref, commit or repository"}
        placeholder={paths ? "events/day=…" : "events/, main, 4e1c77a, sales…"}
        text={text}
        onText={setText}
        groups={[{ title: "Pages", choices: pages }, pathChoices, ...refs.groups, repositories]}
        status={paths ? "" : refs.status}
      />
    </Dialog>
  );
}

function pageChoices(repository: string, ref: string, text: string, visit: (target: Target) => void): ChoiceGroup["choices"] {
  const pages: readonly (readonly [string, Target])[] = [
    ...(repository ? SECTIONS.map(({ screen, title }) => [title, { screen, repository, query: { ref } }] as const) : []),
    ...(repository ? [["Reference log", { screen: "reflog", repository, query: { ref } }] as const] : []),
    ["Repositories", { screen: "repositories" }],
  ];
  return pages
    .filter(([title]) => title.toLowerCase().startsWith(text.trim().toLowerCase()))
    .map(([title, target]) => ({ key: title, label: title, choose: () => visit(target) }));
}

function usePathChoices(repository: string, text: string, visit: (target: Target) => void): ChoiceGroup {
  const { ref } = useShownRef();
  const prefix = useDebounced(text);
  const page = useResource(repository && ref !== null && prefix ? JSON.stringify([repository, ref, prefix]) : null, (signal) =>
    listObjects(repository, ref ?? "", { prefix, delimiter: "/", amount: MOST }, signal),
  );
  const choices = (page.value?.document.results ?? []).map((entry) => {
    const screen = entry.path_type === "common_prefix" ? "objects" : "object";
    return {
      key: entry.path,
      label: <Name text={entry.path} most={70} />,
      choose: () => visit({ screen, repository, query: { ref: ref ?? "", path: entry.path } }),
    };
  });
  return { title: "Paths", choices };
}

function useRepositoryChoices(text: string | null, visit: (target: Target) => void): ChoiceGroup {
  const search = useDebounced(text);
  const page = useResource(search, (signal) => listRepositories({ search: search ?? "", amount: MOST }, signal));
  const choices = (page.value?.results ?? []).map(({ id, default_branch }) => ({
    key: id,
    label: <Name text={id} most={60} />,
    choose: () => visit({ screen: "objects", repository: id, query: { ref: default_branch } }),
  }));
  return { title: "Repositories", choices };
}
