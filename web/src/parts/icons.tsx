/** Strokes on a grid of 16 by 16, drawn in the colour of the text. They stand beside a word, except copy, close and chevrons. */
const PATHS = {
  branch:
    "M5 3v7M5 10a1.6 1.6 0 1 0 0 3.2A1.6 1.6 0 0 0 5 10Zm6-7a1.6 1.6 0 1 0 0 3.2A1.6 1.6 0 0 0 11 3Zm0 3.2C11 9 8 9 5.6 10",
  check: "m3 8.5 3.2 3L13 4.5",
  chevron: "m6 3.5 4.5 4.5L6 12.5",
  close: "m4 4 8 8m0-8-8 8",
  commit: "M1.5 8H5m6 0h3.5M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z",
  copy: "M6 5.5h7.5V14H6zM10 2.5H2.5V11",
  down: "m3.5 6 4.5 4.5L12.5 6",
  file: "M4 1.8h5L12.5 5v9.2H4zM9 1.8V5h3.5",
  folder: "M1.8 3.5h4.4L7.8 5.3h6.4v7.4H1.8z",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Zm3.4 7.9 3.4 3.4",
  tag: "M2 2h5.5L14 8.5 8.5 14 2 7.5zM4.8 4.8v.1",
  upload: "M8 11V2.5M4.5 6 8 2.5 11.5 6M2.5 13.5h11",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon, hidden from assistive technology: the word beside it says what it is. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
