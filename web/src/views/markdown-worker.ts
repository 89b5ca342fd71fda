/** Turns a Markdown text into HTML, which is not sanitised yet. A text can be written so that this takes hours: hence the worker. */
import { Marked } from "marked";

const markdown = new Marked({
  gfm: true,
  renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ ") },
});

self.onmessage = ({ data }: MessageEvent<string>) => self.postMessage(markdown.parse(data, { async: false }));
