/** What an empty folder shows: the lines that put something into it. */
import { putLines } from "../model/use-it";
import { Code } from "../parts/basics";

interface EmptyFolderProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string;
}

/** Three ways to fill a folder, filled in with its names. */
export function EmptyFolder({ repository, gitRef, path }: EmptyFolderProps) {
  return (
    <section class="prose">
      <p>Nothing is here yet. Drop files here, or use one of these:</p>
      {putLines({ repository, ref: gitRef, path }).map((line) => (
        <Code key={line} text={line} />
      ))}
    </section>
  );
}
