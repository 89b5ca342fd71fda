/** A row of the graph of a log. */
import { DRAWN_LANES, type DrawnLine, drawnLines, type GraphRow, placeOf } from "../model/graph";

const COLOURS = 6;

/** Draws the lines and the dot of one row; `lanes` is the width of the whole graph. The lines are for the eye: a commit names its parents. */
export function GraphCell({ row, lanes }: { readonly row: GraphRow; readonly lanes: number }) {
  const { lines, hidden } = drawnLines(row);
  const places = Math.min(lanes, DRAWN_LANES + 1);
  const place = placeOf(row.lane);
  return (
    <div class="graph" style={{ "--lanes": places }}>
      <svg aria-hidden="true" viewBox={`0 0 ${places} 2`} preserveAspectRatio="none">
        {lines.map((line) => (
          <path key={`${line.part} ${line.lane}`} class={`lane-${(line.lane % COLOURS) + 1}`} d={pathOf(line)} />
        ))}
      </svg>
      <span class={`dot lane-${(row.lane % COLOURS) + 1}`} style={{ "--place": place }} />
      {hidden > 0 && <span class="hidden-lanes">+{hidden}</span>}
    </div>
  );
}

/** Returns the path of a line in a row that is two units high: straight in its lane, bent where it leaves or reaches the commit. */
function pathOf({ part, from, to }: DrawnLine): string {
  const [start, end] = [from + 0.5, to + 0.5];
  switch (part) {
    case "whole":
      return `M${start} 0V2`;
    case "upper":
      return from === to ? `M${start} 0V1` : `M${start} 0C${start} .6 ${start} 1 ${end} 1`;
    case "lower":
      return from === to ? `M${start} 1V2` : `M${start} 1C${end} 1 ${end} 1.4 ${end} 2`;
  }
}
