/** The codecs of Parquet's pages, in JavaScript: the page's policy runs no WebAssembly. */
import { Gunzip, gunzipSync } from "fflate";
import { decompress as decompressZstd } from "fzstd";
import { type Compressors, snappyUncompress } from "hyparquet";
import { decompressLz4, decompressLz4Raw } from "../model/lz4";
import { snappyBeginning } from "../model/parquet-beginnings";
import { size } from "../model/text";
import { frameOfBeginning } from "../model/zstd-frames";

type Decompress = NonNullable<Compressors["ZSTD"]>;

const CODECS: Readonly<Record<string, Decompress>> = {
  SNAPPY: (input, length) => {
    const output = new Uint8Array(length);
    snappyUncompress(input, output);
    return output;
  },
  GZIP: (input, length) => gunzipSync(input, { out: new Uint8Array(length) }),
  ZSTD: (input, length) => decompressZstd(input, new Uint8Array(length)),
  LZ4: decompressLz4,
  LZ4_RAW: decompressLz4Raw,
};

/**
 * Returns what decompresses the pages of a codec, `most` bytes of them in all. It counts what pages say that they hold before there is any
 * memory for them, and none of the codecs writes more than that. Throws an error for a codec that the page does not read.
 */
export async function compressorsOf(codec: string | undefined, most: number): Promise<Compressors> {
  if (codec === undefined || codec === "UNCOMPRESSED") return {};
  const decompress = codec === "BROTLI" ? (await import("./brotli")).decompressBrotli : CODECS[codec];
  if (!decompress)
    throw new Error(`it is compressed with ${codec}, and the page reads Snappy, gzip, Zstandard, Brotli and LZ4`);
  let sum = 0;
  const limited: Decompress = (input, length) => {
    sum += length;
    if (!(length >= 0 && sum <= most))
      throw new Error(`its pages have more than ${size(most)} uncompressed, and the page reads no more`);
    return decompress(input, length);
  };
  return { [codec]: limited };
}

/** Returns the first bytes, about `most` of them, that the beginning of a compressed page has. */
type Beginning = (input: Uint8Array, most: number) => Uint8Array;

const PIECE_BYTES = 1 << 10;

function gzipBeginning(input: Uint8Array, most: number): Uint8Array {
  const output = new Uint8Array(most);
  let length = 0;
  const stream = new Gunzip((bytes) => {
    const fitting = bytes.subarray(0, most - length);
    output.set(fitting, length);
    length += fitting.length;
  });
  for (let place = 0; place < input.length && length < most; place += PIECE_BYTES)
    stream.push(input.slice(place, place + PIECE_BYTES));
  return output.subarray(0, length);
}

function zstdBeginning(input: Uint8Array, most: number): Uint8Array {
  const frame = frameOfBeginning(input, most);
  return frame ? decompressZstd(frame) : new Uint8Array();
}

/** What decompresses beginnings of pages, by codec. The others' pages are read as a whole. */
export const BEGINNINGS: Readonly<Record<string, Beginning>> = {
  UNCOMPRESSED: (input) => input,
  SNAPPY: snappyBeginning,
  GZIP: gzipBeginning,
  ZSTD: zstdBeginning,
};
