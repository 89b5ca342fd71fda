/** The decoder within the package `brotli`, whose public function does not bound its output; `vite.config.ts` says where it is. */
declare module "brotli-decoder" {
  interface Input {
    read(target: Uint8Array, start: number, count: number): number;
  }
  interface Output {
    buffer: Uint8Array;
    pos: number;
    write(source: Uint8Array, count: number): void;
  }
  export function BrotliDecompress(input: Input, output: Output): void;
}
