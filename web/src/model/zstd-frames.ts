/** Frames of Zstandard, whose beginnings can be read by themselves: a frame is a sequence of blocks, each decompressed into up to 128 KiB. */

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];
const BLOCK_BYTES = 1 << 17;
const LAST = 1;
const RUN = 2;
const BLOCK_HEAD_BYTES = 3;

/**
 * Returns a frame of those whole blocks at the beginning of a cut frame that decompress into `most` bytes and up to a block more; undefined
 * if there is none. The frame says how much memory its decompression takes; what it said of itself before is not asked.
 */
export function frameOfBeginning(input: Uint8Array, most: number): Uint8Array | undefined {
  if (MAGIC.some((byte, place) => input[place] !== byte)) return undefined;
  const start = blocksStart(input[4] ?? 0);
  const blocks = Math.floor(most / BLOCK_BYTES) + 1;
  let last = -1;
  let end = start;
  for (let block = 0; block < blocks; block += 1) {
    const head = (input[end] ?? 0) | ((input[end + 1] ?? 0) << 8) | ((input[end + 2] ?? 0) << 16);
    const next = end + BLOCK_HEAD_BYTES + ((head & (RUN | 4)) === RUN ? 1 : head >> 3);
    if (next > input.length) break;
    last = end;
    end = next;
    if (head & LAST) break;
  }
  if (last < 0) return undefined;
  const frame = new Uint8Array(MAGIC.length + 2 + end - start);
  frame.set(MAGIC);
  frame[MAGIC.length + 1] = windowByte(blocks * BLOCK_BYTES);
  frame.set(input.subarray(start, end), MAGIC.length + 2);
  const place = MAGIC.length + 2 + last - start;
  frame[place] = (frame[place] ?? 0) | LAST;
  return frame;
}

/** Where the blocks begin, by the descriptor of the frame's header. */
function blocksStart(descriptor: number): number {
  const single = (descriptor >> 5) & 1;
  const sizeBytes = [single, 2, 4, 8][descriptor >> 6] ?? 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  return MAGIC.length + 1 + (1 - single) + dictionaryBytes + sizeBytes;
}

/** The window of at least so many bytes, as frames say it: a power of two above 1 KiB. */
function windowByte(bytes: number): number {
  return Math.max(0, Math.ceil(Math.log2(bytes)) - 10) << 3;
}
