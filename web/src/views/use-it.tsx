/** "Use it": the lines for other tools beside an object, a folder or a ref. */
import { useState } from "preact/hooks";
import { lakeSetting, type Place, type Recipe, recipesOf } from "../model/use-it";
import { Code } from "../parts/basics";
import "./use-it.css";

/** A menu with the lines of one tool at a time. */
export function UseIt({ place }: { readonly place: Place }) {
  const [tool, setTool] = useState<Recipe["tool"]>("Python");
  const [open, setOpen] = useState(false);
  return (
    <details class="menu use-it" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Use it ▾</summary>
      {open && <Recipes place={place} tool={tool} choose={setTool} />}
    </details>
  );
}

interface RecipesProps {
  readonly place: Place;
  readonly tool: Recipe["tool"];
  readonly choose: (tool: Recipe["tool"]) => void;
}

function Recipes({ place, tool, choose }: RecipesProps) {
  const recipes = recipesOf(place);
  const chosen = recipes.find((recipe) => recipe.tool === tool) ?? recipes[0];
  const address = new URL(document.baseURI).href.replace(/\/$/, "");
  return (
    <div class="menu-body">
      <fieldset class="choices" aria-label="Tool">
        {recipes.map((recipe) => (
          <button key={recipe.tool} type="button" aria-pressed={recipe === chosen} onClick={() => choose(recipe.tool)}>
            {recipe.tool}
          </button>
        ))}
      </fieldset>
      {chosen && <Code text={chosen.lines} />}
      <p class="hint">The lake is the one of the working folder, or the one that this setting names:</p>
      <Code text={lakeSetting(address)} />
    </div>
  );
}
