/** The codecs of Parquet's pages, in JavaScript: the page's policy runs no WebAssembly. */
import { gunzipSync } from "fflate";
import { decompress as decompressZstd } from "fzstd";
import { type Compressors, snappyUncompress } from "hyparquet";
import { size } from "../model/text";

type Decompress = NonNullable<Compressors["ZSTD"]>;

const CODECS: Readonly<Record<string, Decompress>> = {
  SNAPPY: (input, length) => {
    const output = new Uint8Array(length);
    snappyUncompress(input, output);
    return output;
  },
  GZIP: (input, length) => gunzipSync(input, { out: new Uint8Array(length) }),
  ZSTD: (input, length) => decompressZstd(input, new Uint8Array(length)),
};

/** Codecs that few files have, which are loaded with the first one. */
const RARE: Readonly<Record<string, () => Promise<Decompress>>> = {
  BROTLI: async () => (await import("./brotli")).decompressBrotli,
  LZ4: async () => (await import("../model/lz4")).decompressLz4,
  LZ4_RAW: async () => (await import("../model/lz4")).decompressLz4Raw,
};

/**
 * Returns what decompresses the pages of a codec, `most` bytes of them in all. It counts what pages say that they hold before there is any
 * memory for them, and none of the codecs writes more than that. Throws an error for a codec that the page does not read.
 */
export async function compressorsOf(codec: string | undefined, most: number): Promise<Compressors> {
  if (codec === undefined || codec === "UNCOMPRESSED") return {};
  const decompress = CODECS[codec] ?? (await RARE[codec]?.());
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
