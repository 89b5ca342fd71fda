/** Tables: equally high rows, of which only the visible ones are in the document. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { rowWindow } from "../model/window";

/** A column: its title, and how its cells look. `name` takes the room that the others leave. */
export interface Column {
  readonly title: ComponentChildren;
  readonly kind?: "name" | "number" | "mark";
  /** How the table is sorted by this column, if it is. */
  readonly sort?: "ascending" | "descending" | undefined;
  /** Whether the column is left out on narrow screens. */
  readonly wide?: boolean;
}

/** Returns the class of a column's cells. */
function classOf({ kind, wide }: Column): string | undefined {
  return [kind, wide && "wide"].filter(Boolean).join(" ") || undefined;
}

/** A row: its key, and a cell for each column. */
export interface Row {
  readonly key: string;
  readonly cells: readonly ComponentChildren[];
  readonly className?: string;
}

interface TableProps {
  readonly label: string;
  readonly columns: readonly Column[];
  /** Number of rows that are loaded. */
  readonly rows: number;
  /** Returns a row by its number; called for the drawn ones. */
  readonly row: (number: number) => Row;
  /** Called while the end of the list is near; loads more, if there are any. */
  readonly more?: (() => void) | undefined;
  /** What stands below a row, as high as it is. */
  readonly detail?: { readonly row: number; readonly content: ComponentChildren } | undefined;
  /** Called with the visible rows `[first, end)` after 150 ms of rest. */
  readonly rest?: ((first: number, end: number) => void) | undefined;
}

const REST_MS = 150;
const SMALL = 200;

/** Draws a table that the window scrolls. Below 200 rows all of them are drawn, so that the browser's search sees them. */
export function Table({ label, columns, rows, row, more, detail, rest }: TableProps) {
  const frame = useRef<HTMLTableSectionElement>(null);
  const extra = useRef<HTMLTableRowElement>(null);
  const below = useRef<number | undefined>(undefined);
  below.current = detail?.row;
  const [place, setPlace] = useState({ offset: 0, height: innerHeight, row: 32 });
  useLayoutEffect(() => {
    const measure = () => {
      const element = frame.current;
      if (!element) return;
      const height = Number.parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 32;
      const offset = offsetOfRows(Math.max(0, -element.getBoundingClientRect().top), height, below.current, extra.current);
      setPlace((before) =>
        before.row === height && Math.abs(before.offset - offset) < height * 4 && before.height === innerHeight
          ? before
          : { offset, height: innerHeight, row: height },
      );
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, []);
  const drawn =
    rows < SMALL ? { first: 0, end: rows, above: 0, below: 0 } : rowWindow(rows, place.row, place.offset, place.height);
  const visible = rowWindow(rows, place.row, place.offset, place.height);
  useEffect(() => {
    if (visible.end >= rows) more?.();
  }, [visible.end, rows, more]);
  useEffect(() => {
    if (!rest) return;
    const timer = setTimeout(() => rest(visible.first, visible.end), REST_MS);
    return () => clearTimeout(timer);
  }, [visible.first, visible.end, rest]);
  const drawnRows: ComponentChildren[] = [];
  for (let number = drawn.first; number < drawn.end; number += 1) {
    const { key, cells, className } = row(number);
    drawnRows.push(
      <tr key={key} class={className} aria-rowindex={number + 2}>
        {columns.map((column, index) => (
          <td key={index} class={classOf(column)}>
            {cells[index]}
          </td>
        ))}
      </tr>,
    );
    if (number === detail?.row) {
      drawnRows.push(
        <tr key={`below ${key}`} class="detail" ref={extra}>
          <td colSpan={columns.length}>{detail.content}</td>
        </tr>,
      );
    }
  }
  return (
    <div class="table">
      <table aria-label={label} aria-rowcount={rows + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column, index) => (
              <th key={index} scope="col" class={classOf(column)} aria-sort={column.sort}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={frame}>
          {drawn.above > 0 && <tr key="above" aria-hidden="true" class="space" style={{ height: `${drawn.above}px` }} />}
          {drawnRows}
          {drawn.below > 0 && <tr key="below" aria-hidden="true" class="space" style={{ height: `${drawn.below}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

/** Returns how far a table is scrolled, in pixels of rows alone: without what stands below row `number`. */
function offsetOfRows(scrolled: number, row: number, number: number | undefined, extra: HTMLElement | null): number {
  if (number === undefined || !extra) return scrolled;
  const end = (number + 1) * row;
  return scrolled <= end ? scrolled : Math.max(end, scrolled - extra.offsetHeight);
}
