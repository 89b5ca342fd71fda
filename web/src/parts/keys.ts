/** Keys: screens and the frame say what theirs do; none does anything while a field has the focus, a dialog is open, or keys are off. */
import { useEffect, useRef } from "preact/hooks";
import { type PendingKey, pressKey } from "../model/key-presses";
import { keysOn } from "./settings";

type Actions = Readonly<Record<string, () => void>>;

const layers: { current: Actions }[] = [];
let pending: PendingKey | undefined;

/** Sets what keys do while a component is shown, such as `{ b: openRefs, "g d": goToData }`. Those of the newest component win. */
export function useKeys(actions: Actions): void {
  const layer = useRef(actions);
  layer.current = actions;
  useEffect(() => {
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, []);
}

const WITHOUT_TEXT = new Set(["checkbox", "radio", "button", "submit"]);

function isField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return !WITHOUT_TEXT.has(target.type);
  return target instanceof HTMLElement && (target.isContentEditable || /^(TEXTAREA|SELECT)$/.test(target.tagName));
}

window.addEventListener("keydown", (event) => {
  if (!keysOn.value || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Shift" || isField(event.target) || document.querySelector("dialog[open]")) return;
  const actions: Actions = Object.assign({}, ...layers.map((layer) => layer.current));
  const press = pressKey(new Set(Object.keys(actions)), pending, event.key, event.timeStamp);
  pending = press.pending;
  if (!press.name) return;
  event.preventDefault();
  actions[press.name]?.();
});

/** Moves the focus to the next row of the screen's table, or with −1 to the one before. */
export function focusRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main tbody tr:not(.space)")].filter((row) =>
    row.querySelector("a, button"),
  );
  const present = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[present < 0 ? 0 : present + step];
  row?.querySelector<HTMLElement>("a, button")?.focus();
}

/** Puts the focus into the screen's field that filters. */
export function focusFilter(): void {
  document.querySelector<HTMLInputElement>("main input[type=search]")?.select();
}

/** Selects the row with the focus, or no longer. */
export function selectRow(): void {
  document.activeElement?.closest("main tbody tr")?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
}
