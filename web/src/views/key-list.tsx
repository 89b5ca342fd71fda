/** The list of keys, shown by `?`. */
import { Dialog } from "../parts/dialog";
import { keysOn } from "../parts/settings";
import { SECTIONS } from "./sections";

const KEYS: readonly (readonly [keys: string, title: string])[] = [
  ["Ctrl+K or ⌘K", "Go to a page, path, ref, commit or repository"],
  ["b", "Choose a ref"],
  ["t", "Go to a path"],
  ["/", "Filter"],
  ["j, k", "Next row, row before"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["c", "Compare what is selected"],
  ["u", "Up: the folder above, the repository, the repositories"],
  ["y", "Copy the permanent link"],
  [".", "Use it: lines of code for what is shown"],
  ...SECTIONS.map(({ key, title }) => [`g ${key}`, title] as const),
  ["g r", "Repositories"],
  ["?", "This list"],
];

/** The list, as a dialog, with the switch that turns single keys off. */
export function KeyList({ close }: { readonly close: () => void }) {
  return (
    <Dialog label="Keys" close={close}>
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, title]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
      </dl>
      <label class="choice">
        <input type="checkbox" checked={keysOn.value} onChange={(event) => (keysOn.value = event.currentTarget.checked)} />
        Single keys do something, in this visit
      </label>
      <button type="button" onClick={close}>
        Close
      </button>
    </Dialog>
  );
}
