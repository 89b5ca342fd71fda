/** The README of a folder, below its rows. */
import { openObject } from "../api/object-bytes";
import { decodeText, MOST_TEXT_BYTES } from "../model/previews";
import { Failure, Name } from "../parts/basics";
import { useResource } from "../parts/resource";
import { Markdown } from "./rendered-markdown";

interface ReadmeProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string;
}

/** Reads a README and draws it. */
export function FolderReadme({ repository, gitRef, path }: ReadmeProps) {
  const text = useResource(JSON.stringify([repository, gitRef, path]), async (signal) => {
    const bytes = await openObject({ repository, ref: gitRef, path }, signal);
    return decodeText(new Uint8Array(await bytes.slice(0, MOST_TEXT_BYTES)), bytes.byteLength).text;
  });
  return (
    <section class="readme" aria-label="README">
      <h2>
        <Name text={path.slice(path.lastIndexOf("/") + 1)} />
      </h2>
      {text.error !== undefined && <Failure error={text.error} retry={text.reload} />}
      {text.value !== undefined && <Markdown repository={repository} gitRef={gitRef} path={path} text={text.value} />}
    </section>
  );
}
