/** Which rows of a long list are drawn. All rows are equally high, so this is arithmetic. */

/** The rows `[first, end)` to draw, and the height in pixels of those above and below. */
export interface RowWindow {
  readonly first: number;
  readonly end: number;
  readonly above: number;
  readonly below: number;
}

/**
 * Returns the window of a list that is scrolled by `offset` pixels in a view of `height`. `spare` more rows are drawn on each side, so
 * that fast scrolling shows no gaps.
 */
export function rowWindow(rows: number, rowHeight: number, offset: number, height: number, spare = 12): RowWindow {
  const clamp = (row: number) => Math.min(Math.max(row, 0), rows);
  const first = clamp(Math.floor(offset / rowHeight) - spare);
  const end = Math.max(first, clamp(Math.ceil((offset + height) / rowHeight) + spare));
  return { first, end, above: first * rowHeight, below: (rows - end) * rowHeight };
}
