/**
 * The bytes of an object, read by ranges and kept.
 *
 * They come from the store by a presigned URL, where the server has such URLs; one that has expired is asked for again. A store that does not
 * let this page's origin read (CORS) is passed by: the server reads for it then. If the object was replaced meanwhile, reading fails: bytes
 * of two objects are never mixed.
 */
import { type ByteRange, ReadRanges } from "../model/ranges";
import { apiUrl, pathOf, requestBytes } from "./client";
import { getConfig, statObject } from "./endpoints";
import { ApiError, UnreachableError } from "./errors";
import type { Config, ObjectStats } from "./schema";

const EXPIRED = 403;
const PIECE_BYTES = 4 << 20;

let config: Promise<Config> | undefined;

/** Returns the server's configuration, asked for once. */
export function configuration(): Promise<Config> {
  config ??= getConfig();
  config.catch(() => {
    config = undefined;
  });
  return config;
}

/** An object's place in the lake. */
export interface ObjectPlace {
  readonly repository: string;
  readonly ref: string;
  readonly path: string;
}

/** An open object. `slice` is that of hyparquet's files. */
export class ObjectBytes {
  readonly #ranges = new ReadRanges();
  #address: string | undefined;

  constructor(
    readonly place: ObjectPlace,
    readonly stats: ObjectStats,
    address: string | undefined,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.#address = address;
  }

  /** Size of the object in bytes. */
  get byteLength(): number {
    return this.stats.size_bytes ?? 0;
  }

  /** Number of bytes that were transferred. */
  get read(): number {
    return this.#ranges.read;
  }

  /** Returns the bytes from `start` to `end`, which is exclusive. Only what was not read before is transferred. */
  async slice(start: number, end = this.byteLength): Promise<ArrayBuffer> {
    const range: ByteRange = [start, Math.min(end, this.byteLength)];
    if (range[0] >= range[1]) return new ArrayBuffer(0);
    await Promise.all(
      this.#ranges.gaps(range).map(async (gap) => {
        this.#ranges.add(gap[0], await this.#fetch(gap));
      }),
    );
    return this.#ranges.take(range).buffer;
  }

  /** Returns all bytes; `progress` is called with the number of those that have come. */
  async whole(progress: (read: number) => void): Promise<ArrayBuffer> {
    for (let start = 0; start < this.byteLength; start += PIECE_BYTES) {
      await this.slice(start, start + PIECE_BYTES);
      progress(this.read);
    }
    return this.slice(0);
  }

  /** Returns all bytes as a blob of a type. */
  async blob(type: string): Promise<Blob> {
    return new Blob([await this.slice(0)], { type });
  }

  async #fetch(range: ByteRange): Promise<Uint8Array> {
    const address = this.#address;
    if (address === undefined) return this.#fetchFromServer(range);
    try {
      return await bytesOf(await requestBytes(address, { range, signal: this.signal }), range);
    } catch (error) {
      if (error instanceof UnreachableError && error.origin !== location.origin) {
        this.#address = undefined;
        return this.#fetchFromServer(range);
      }
      if (!(error instanceof ApiError) || error.status !== EXPIRED) throw error;
      const { repository, ref, path } = this.place;
      const stats = await statObject(repository, ref, path, { presign: true }, this.signal);
      this.#expectSame(stats.checksum);
      this.#address = stats.physical_address;
      return bytesOf(await requestBytes(this.#address, { range, signal: this.signal }), range);
    }
  }

  async #fetchFromServer(range: ByteRange): Promise<Uint8Array> {
    const response = await requestBytes(objectUrl(this.place), { range, signal: this.signal });
    const tag = response.headers.get("etag");
    if (tag) this.#expectSame(tag.replaceAll('"', ""));
    return bytesOf(response, range);
  }

  #expectSame(checksum: string): void {
    if (checksum === this.stats.checksum) return;
    throw new Error("The object was replaced while the page read it. Load the page again to see the new one.");
  }
}

async function bytesOf(response: Response, [start, end]: ByteRange): Promise<Uint8Array> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const part = response.status === 206 ? bytes : bytes.subarray(start, end);
  if (part.length !== end - start) throw new Error(`The store sent ${part.length} bytes instead of ${end - start}.`);
  return part;
}

/** Returns the address of an object's bytes on the server; it works as a link for a download. */
export function objectUrl({ repository, ref, path }: ObjectPlace): string {
  return apiUrl(pathOf("repositories", repository, "refs", ref, "objects"), { path });
}

/** Opens an object. */
export async function openObject(place: ObjectPlace, signal?: AbortSignal): Promise<ObjectBytes> {
  const presign = (await configuration()).storage_config.pre_sign_support;
  const stats = await statObject(place.repository, place.ref, place.path, { presign }, signal);
  return new ObjectBytes(place, stats, presign ? stats.physical_address : undefined, signal);
}
