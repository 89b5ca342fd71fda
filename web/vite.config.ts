/**
 * The build: `index.html` and `assets/NAME-HASH.EXTENSION`, into the data package that the wheel and the function `read` carry.
 *
 * Every address in the built files is relative to the shell's `<base>`, so one build serves any `--base-path`.
 */
import { join } from "node:path";
import { defineConfig } from "vite";

// The server lets a session change something from its own pages only, so it has to see the name that the browser sees.
const server = { target: process.env.GRAVELER_SERVER ?? "http://127.0.0.1:8000", changeOrigin: false };

export default defineConfig({
  base: "./",
  resolve: { alias: { "brotli-decoder": join(import.meta.dirname, "node_modules/brotli/dec/decode.js") } },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "package/graveler_page",
    assetsDir: "assets",
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    target: "es2022",
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  server: {
    host: "127.0.0.1",
    port: 5173,
    proxy: { "/api": server, "/objects": server, "/docs": server, "/openapi.json": server },
  },
  test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
