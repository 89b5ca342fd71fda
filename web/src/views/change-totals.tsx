/** The numbers of a difference. */
import type { Totals } from "../api/schema";
import { growth, marks, SIGNS, shares } from "../model/changes";
import { counted, size, sizeChange } from "../model/text";
import "./change-totals.css";

/** How many objects were added, removed and changed: `+3 −1 ~25`. */
export function Marks({ totals }: { readonly totals: Totals }) {
  const numbers = marks(totals);
  return (
    <span class="marks">
      {numbers.length === 0 && "0"}
      {numbers.map(({ kind, text }) => (
        <span key={kind} class={kind} title={kind}>
          {text}
        </span>
      ))}
    </span>
  );
}

/** The same in words, with bytes. */
export function TotalsLine({ totals }: { readonly totals: Totals }) {
  const { added, removed, changed } = totals;
  if (!added && !removed && !changed) return <p class="totals">No object differs.</p>;
  return (
    <p class="totals">
      {added > 0 && (
        <span class="added">
          {SIGNS.added}
          {counted(added, "object")} added, {size(totals.added_bytes)}
        </span>
      )}
      {removed > 0 && (
        <span class="removed">
          {SIGNS.removed}
          {counted(removed, "object")} removed, {size(totals.removed_bytes)}
        </span>
      )}
      {changed > 0 && (
        <span class="changed">
          {SIGNS.changed}
          {counted(changed, "object")} changed, {size(totals.changed_bytes_before)} → {size(totals.changed_bytes_after)}
        </span>
      )}
      <span class="growth">{sizeChange(growth(totals))} in all</span>
    </p>
  );
}

/** A bar as long as the number of objects that differ; the longest of its list has `most`. For the eye: the numbers stand beside it. */
export function Bar({ totals, most }: { readonly totals: Totals; readonly most: number }) {
  return (
    <span class="share" aria-hidden="true">
      {shares(totals, most).map(([kind, share]) => (
        <span key={kind} class={kind} style={{ width: `${share * 100}%` }} />
      ))}
    </span>
  );
}
