/** Bytes of an object that were read so far, in pieces. */

/** A range of bytes `[start, end)`. */
export type ByteRange = readonly [start: number, end: number];

interface Piece {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** Pieces of an object's bytes that do not overlap. */
export class ReadRanges {
  #pieces: Piece[] = [];
  #read = 0;

  /** Number of bytes that were read. */
  get read(): number {
    return this.#read;
  }

  /** Returns the parts of a range that are still to be read. */
  gaps([start, end]: ByteRange): ByteRange[] {
    const gaps: ByteRange[] = [];
    let place = start;
    for (const piece of this.#pieces) {
      const pieceEnd = piece.start + piece.bytes.length;
      if (pieceEnd <= place) continue;
      if (piece.start >= end) break;
      if (piece.start > place) gaps.push([place, piece.start]);
      place = pieceEnd;
    }
    if (place < end) gaps.push([place, end]);
    return gaps;
  }

  /** Adds bytes that were read from `start` on. What another read has brought meanwhile is left out. */
  add(start: number, bytes: Uint8Array): void {
    this.#read += bytes.length;
    for (const [from, to] of this.gaps([start, start + bytes.length])) {
      this.#pieces.push({ start: from, bytes: bytes.subarray(from - start, to - start) });
    }
    this.#pieces.sort((left, right) => left.start - right.start);
  }

  /** Returns the bytes of a range without gaps, as a copy. */
  take([start, end]: ByteRange): Uint8Array<ArrayBuffer> {
    const taken = new Uint8Array(end - start);
    for (const piece of this.#pieces) {
      const [from, to] = [Math.max(start, piece.start), Math.min(end, piece.start + piece.bytes.length)];
      if (from < to) taken.set(piece.bytes.subarray(from - piece.start, to - piece.start), from - start);
    }
    return taken;
  }
}
