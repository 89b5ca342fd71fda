/** An object's record: checksum, address, type, metadata, and whether its bytes are the lake's own. */
import type { ComponentChildren } from "preact";
import { getRepository, statObject } from "../api/endpoints";
import type { ObjectBytes } from "../api/object-bytes";
import { count, exactTime, size, visible } from "../model/text";
import { Copy, Failure, Name, Waiting } from "../parts/basics";
import { useResource } from "../parts/resource";
import { utc } from "../parts/settings";

/** All that the lake records of an object. */
export function Details({ object }: { readonly object: ObjectBytes }) {
  const { repository, ref, path } = object.place;
  const key = JSON.stringify([repository, ref, path]);
  // The record that came with the bytes has a presigned URL for an address.
  const record = useResource(key, (signal) => statObject(repository, ref, path, { presign: false }, signal));
  const home = useResource(repository, (signal) => getRepository(repository, signal));
  if (record.error !== undefined) return <Failure error={record.error} retry={record.reload} />;
  if (!record.value) return <Waiting>Loading the object's record…</Waiting>;
  const stats = record.value;
  const metadata = Object.entries(stats.metadata ?? {});
  const namespace = home.value?.storage_namespace.replace(/\/$/, "");
  const own = namespace === undefined ? undefined : stats.physical_address.startsWith(`${namespace}/`);
  return (
    <>
      <table class="details" aria-label="Details">
        <tbody>
          <Detail title="Path" text={path} />
          <Detail title="Size">
            {size(stats.size_bytes ?? 0)} ({count(stats.size_bytes ?? 0)} bytes)
          </Detail>
          <Detail title="Written">{exactTime(stats.mtime, utc.value)}</Detail>
          <Detail title="Type" text={stats.content_type ?? ""} />
          <Detail title="Checksum" text={stats.checksum} />
          <Detail title="Address" text={stats.physical_address} />
          <Detail title="Bytes">
            {own === undefined
              ? "…"
              : own
                ? "copied: they are in the lake's own storage"
                : "linked: they stay where they were imported from; the lake does not delete them"}
          </Detail>
        </tbody>
      </table>
      <h2>Metadata</h2>
      {metadata.length ? (
        <table class="details" aria-label="Metadata">
          <tbody>
            {metadata.map(([name, value]) => (
              <Detail key={name} title={visible(name)} text={value} />
            ))}
          </tbody>
        </table>
      ) : (
        <p class="hint">None.</p>
      )}
    </>
  );
}

interface DetailProps {
  readonly title: string;
  /** A value to show and copy. */
  readonly text?: string;
  readonly children?: ComponentChildren;
}

function Detail({ title, text, children }: DetailProps) {
  return (
    <tr>
      <th scope="row">
        <bdi>{title}</bdi>
      </th>
      <td>
        {text === undefined ? (
          children
        ) : (
          <>
            <Name text={text} most={1000} />
            {text && <Copy text={text} />}
          </>
        )}
      </td>
    </tr>
  );
}
