/** LZ4 blocks, as Parquet has them. A block never grows beyond the size that is expected of it. */

const SHORTEST_MATCH = 4;
/** Size of the two lengths before each block in Hadoop's frames, in bytes. */
const FRAME_HEAD = 8;
const DAMAGED = "its LZ4 data is damaged";

/** Returns the `length` bytes of one LZ4 block (Parquet's codec `LZ4_RAW`). Throws an error if it has more or fewer. */
export function decompressLz4Raw(block: Uint8Array, length: number): Uint8Array {
  const output = new Uint8Array(length);
  if (writeBlock(block, output, 0) !== length) throw new Error(DAMAGED);
  return output;
}

/**
 * Returns the `length` bytes of Parquet's codec `LZ4`: blocks, each behind its uncompressed and compressed length, as Hadoop writes them; or
 * one block without lengths, as early versions of Arrow did.
 */
export function decompressLz4(input: Uint8Array, length: number): Uint8Array {
  const frames = framesOf(input, length);
  if (!frames) return decompressLz4Raw(input, length);
  const output = new Uint8Array(length);
  let place = 0;
  for (const { block, bytes } of frames) {
    const end = writeBlock(block, output, place);
    if (end !== place + bytes) throw new Error(DAMAGED);
    place = end;
  }
  return output;
}

interface Frame {
  readonly block: Uint8Array;
  /** Uncompressed length. */
  readonly bytes: number;
}

/** Returns Hadoop's frames, or undefined if the lengths do not fit together: then it is something else. */
function framesOf(input: Uint8Array, length: number): readonly Frame[] | undefined {
  const view = new DataView(input.buffer, input.byteOffset, input.length);
  const frames: Frame[] = [];
  let place = 0;
  let sum = 0;
  while (place + FRAME_HEAD <= input.length) {
    const bytes = view.getUint32(place);
    const end = place + FRAME_HEAD + view.getUint32(place + 4);
    sum += bytes;
    if (end > input.length || sum > length) return undefined;
    frames.push({ block: input.subarray(place + FRAME_HEAD, end), bytes });
    place = end;
  }
  return place === input.length && sum === length ? frames : undefined;
}

/** Writes a block's bytes from `start` on, and returns the place behind them. */
function writeBlock(block: Uint8Array, output: Uint8Array, start: number): number {
  let read = 0;
  let place = start;
  const lengthFrom = (nibble: number): number => {
    let sum = nibble;
    for (let byte = nibble === 15 ? 255 : 0; byte === 255; sum += byte) {
      byte = block[read] ?? damaged();
      read += 1;
    }
    return sum;
  };
  while (read < block.length) {
    const token = block[read] ?? 0;
    read += 1;
    const literals = lengthFrom(token >> 4);
    if (read + literals > block.length || place + literals > output.length) damaged();
    output.set(block.subarray(read, read + literals), place);
    read += literals;
    place += literals;
    if (read === block.length) break; // the last sequence has literals only
    const distance = (block[read] ?? 0) | ((block[read + 1] ?? damaged()) << 8);
    read += 2;
    const end = place + lengthFrom(token & 15) + SHORTEST_MATCH;
    if (distance === 0 || distance > place - start || end > output.length) damaged();
    // A match may reach into what it writes itself, so it is copied in order.
    for (; place < end; place += 1) output[place] = output[place - distance] ?? 0;
  }
  return place;
}

function damaged(): never {
  throw new Error(DAMAGED);
}
