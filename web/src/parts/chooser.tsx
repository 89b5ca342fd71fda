/** A field for text with a list of what can be chosen: `↓ ↑` move in the list, Enter chooses. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Something to choose. */
export interface Choice {
  readonly key: string;
  readonly label: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly choose: () => void;
}

/** Choices of one kind. */
export interface ChoiceGroup {
  readonly title: string;
  readonly choices: readonly Choice[];
}

interface ChooserProps {
  readonly label: string;
  readonly placeholder: string;
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly groups: readonly ChoiceGroup[];
  /** A sentence about the text. */
  readonly status?: ComponentChildren;
}

/** Draws the field and the list. */
export function Chooser({ label, placeholder, text, onText, groups, status }: ChooserProps) {
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const [active, setActive] = useState(0);
  const filled = groups.filter((group) => group.choices.length);
  const choices = filled.flatMap((group) => group.choices);
  const present = Math.min(active, Math.max(0, choices.length - 1));
  useLayoutEffect(() => field.current?.select(), []);
  useLayoutEffect(() => {
    document.getElementById(`${id}-${present}`)?.scrollIntoView({ block: "nearest" });
  }, [id, present]);
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && choices.length) setActive((present + step + choices.length) % choices.length);
    else if (event.key === "Enter") choices[present]?.choose();
    else return;
    event.preventDefault();
  };
  let number = -1;
  return (
    <div class="chooser">
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={choices.length > 0}
        aria-controls={id}
        aria-autocomplete="list"
        aria-activedescendant={choices.length ? `${id}-${present}` : undefined}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        value={text}
        onKeyDown={press}
        onInput={(event) => {
          setActive(0);
          onText(event.currentTarget.value);
        }}
      />
      <p class="hint chooser-status" role="status">
        {status}
      </p>
      <div id={id} role="listbox" aria-label={label}>
        {filled.map((group) => (
          // biome-ignore lint/a11y/useSemanticElements: a group of options, not of fields.
          <div key={group.title} role="group" aria-label={group.title}>
            <div class="group-title" aria-hidden="true">
              {group.title}
            </div>
            {group.choices.map((choice) => {
              number += 1;
              return (
                // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus, and its keys choose.
                // biome-ignore lint/a11y/useFocusableInteractive: as above.
                <div
                  key={choice.key}
                  id={`${id}-${number}`}
                  role="option"
                  aria-selected={number === present}
                  class="option"
                  onClick={choice.choose}
                >
                  <span>{choice.label}</span>
                  {choice.hint && <span class="hint">{choice.hint}</span>}
                </div>
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}
