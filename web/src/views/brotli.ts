/** Brotli, with its dictionary of 122 kB. Loaded with the first Parquet column that is compressed with it. */
import { BrotliDecompress } from "brotli-decoder";

/** Returns the `length` bytes of a Brotli stream. Throws an error if it has more. */
export function decompressBrotli(stream: Uint8Array, length: number): Uint8Array {
  const output = new BoundedOutput(length);
  BrotliDecompress(new StreamInput(stream), output);
  return output.buffer.subarray(0, output.pos);
}

class StreamInput {
  #place = 0;

  constructor(private readonly stream: Uint8Array) {}

  /** Copies up to `count` bytes into `target`, and returns their number. */
  read(target: Uint8Array, start: number, count: number): number {
    const part = this.stream.subarray(this.#place, this.#place + count);
    target.set(part, start);
    this.#place += part.length;
    return part.length;
  }
}

/** The decoder would grow its output to whatever the stream says: ten bytes are enough for 16 MiB. This one keeps its size. */
class BoundedOutput {
  readonly #buffer: Uint8Array;
  pos = 0;

  constructor(length: number) {
    this.#buffer = new Uint8Array(length);
  }

  get buffer(): Uint8Array {
    return this.#buffer;
  }

  set buffer(_: Uint8Array) {
    throw new Error("its Brotli data is longer than its page says");
  }

  write(source: Uint8Array, count: number): void {
    this.#buffer.set(source.subarray(0, count), this.pos);
    this.pos += count;
  }
}
