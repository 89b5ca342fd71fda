/** Uploading into a folder: by drop or by a button, with progress, retry and cancel. */
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { createBranch } from "../api/endpoints";
import { isAbort, sentenceOf } from "../api/errors";
import { uploadFile } from "../api/uploads";
import { counted, nameIn, size } from "../model/text";
import { listedUploads, sumOf, type Upload, withChange, withFiles } from "../model/uploads";
import { Failure, Name } from "../parts/basics";
import { Icon } from "../parts/icons";
import { setQuery } from "../parts/navigation";
import { useShownRef } from "./shown-ref";

const FILES_AT_ONCE = 4;
const MOST_LISTED = 20;

interface DropAreaProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly path: string;
  /** Called when files have arrived. */
  readonly done: () => void;
  readonly children: ComponentChildren;
}

/** A folder's screen as an area to drop files on. Above its children stand a button, and the uploads of this visit. */
export function DropArea({ repository, gitRef, path, done, children }: DropAreaProps) {
  const { description, reload } = useShownRef();
  const [over, setOver] = useState(false);
  const [offered, setOffered] = useState(false);
  const [unread, setUnread] = useState<unknown>();
  const { uploads, add, ...actions } = useUploads(repository, gitRef, () => {
    done();
    reload();
  });
  const writable = description?.type === "branch" && !description.protected && !description.read_only;
  const accept = (files: readonly DroppedFile[]) => {
    if (writable) add(files.map(({ name, file }) => ({ path: path + name, file })));
    else setOffered(true);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    setUnread(undefined);
    if (event.dataTransfer) filesOf(event.dataTransfer).then(accept, setUnread);
  };
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button does the same by the keyboard.
    <div class={over ? "drop ready" : "drop"} onDragOver={drag} onDragLeave={() => setOver(false)} onDrop={drop}>
      <div class="uploads">
        {writable ? (
          <label class="button">
            <Icon name="upload" /> Upload
            <input
              type="file"
              multiple
              onChange={(event) => {
                accept([...(event.currentTarget.files ?? [])].map((file) => ({ name: file.name, file })));
                event.currentTarget.value = "";
              }}
            />
          </label>
        ) : (
          description && (
            <button type="button" onClick={() => setOffered(true)}>
              <Icon name="upload" /> Upload
            </button>
          )
        )}
      </div>
      {offered && description && !writable && (
        <BranchOffer repository={repository} gitRef={gitRef} readOnly={description.read_only} close={() => setOffered(false)} />
      )}
      {unread !== undefined && <Failure error={unread} />}
      {uploads.length > 0 && <UploadList uploads={uploads} folder={path} {...actions} />}
      {children}
    </div>
  );
}

interface PlacedFile {
  readonly path: string;
  readonly file: File;
}

/** Uploads of this visit, some files at a time. */
function useUploads(repository: string, branch: string, arrived: () => void) {
  const [uploads, setUploads] = useState<readonly Upload[]>([]);
  const files = useRef(new Map<string, { readonly file: File; readonly branch: string; readonly abort: AbortController }>());
  const waiting = useRef<string[]>([]);
  const running = useRef(0);
  const change = (path: string, values: Partial<Upload>) => setUploads((before) => withChange(before, path, values));

  const next = () => {
    while (running.current < FILES_AT_ONCE) {
      const path = waiting.current.shift();
      const placed = path === undefined ? undefined : files.current.get(path);
      if (path === undefined || !placed) return;
      running.current += 1;
      change(path, { state: "sending", sent: 0, problem: "" });
      uploadFile({ repository, branch: placed.branch, path }, placed.file, {
        progress: (sent) => change(path, { sent }),
        signal: placed.abort.signal,
      })
        .then(
          () => {
            change(path, { state: "done" });
            files.current.delete(path);
          },
          (error: unknown) =>
            change(path, isAbort(error) ? { state: "cancelled" } : { state: "failed", problem: sentenceOf(error) }),
        )
        .finally(() => {
          running.current -= 1;
          if (!waiting.current.length && !running.current) arrived();
          next();
        });
    }
  };

  const start = (placed: readonly PlacedFile[]) => {
    for (const { path, file } of placed) {
      files.current.set(path, { file, branch, abort: new AbortController() });
      waiting.current.push(path);
    }
    next();
  };
  const cancel = (path: string) => {
    waiting.current = waiting.current.filter((candidate) => candidate !== path);
    files.current.get(path)?.abort.abort();
    change(path, { state: "cancelled" });
  };
  return {
    uploads,
    add: (placed: readonly PlacedFile[]) => {
      const fresh = placed.filter(({ path }) => !waiting.current.includes(path));
      setUploads((before) =>
        withFiles(
          before,
          fresh.map(({ path, file }) => ({ path, size: file.size })),
        ),
      );
      start(fresh);
    },
    retry: (path: string) => {
      const placed = files.current.get(path);
      if (!placed) return;
      change(path, { state: "waiting", problem: "" });
      start([{ path, file: placed.file }]);
    },
    cancel,
    cancelAll: () => {
      for (const path of [...files.current.keys()]) cancel(path);
    },
    clear: () => setUploads((before) => before.filter(({ state }) => state === "waiting" || state === "sending")),
  };
}

interface UploadListProps {
  readonly uploads: readonly Upload[];
  readonly folder: string;
  readonly retry: (path: string) => void;
  readonly cancel: (path: string) => void;
  readonly cancelAll: () => void;
  readonly clear: () => void;
}

function UploadList({ uploads, folder, retry, cancel, cancelAll, clear }: UploadListProps) {
  const sum = sumOf(uploads);
  const { shown, others } = listedUploads(uploads, MOST_LISTED);
  return (
    <section aria-label="Uploads">
      <p role="status">
        {sum.done} of {sum.files} uploaded, {size(sum.sent)} of {size(sum.bytes)}
        {sum.failed > 0 && `, ${sum.failed} failed`}{" "}
        {sum.running ? (
          sum.files > 1 && (
            <button type="button" class="quiet" onClick={cancelAll}>
              Cancel all
            </button>
          )
        ) : (
          <button type="button" class="quiet" onClick={clear}>
            Close
          </button>
        )}
      </p>
      <ul class="upload-list">
        {shown.map((upload) => (
          <li key={upload.path}>
            <Name text={nameIn(upload.path, folder)} most={60} />
            {upload.state === "failed" ? (
              <>
                <span class="removed">{upload.problem}</span>
                <button type="button" onClick={() => retry(upload.path)}>
                  Try again
                </button>
              </>
            ) : (
              <progress max={Math.max(1, upload.size)} value={upload.sent} aria-label="Sent" />
            )}
            <button type="button" class="quiet" onClick={() => cancel(upload.path)}>
              Cancel
            </button>
          </li>
        ))}
        {others > 0 && <li class="hint">and {counted(others, "file")} more</li>}
      </ul>
    </section>
  );
}

interface BranchOfferProps {
  readonly repository: string;
  readonly gitRef: string;
  readonly readOnly: boolean;
  readonly close: () => void;
}

/** What is said where nothing can be uploaded to, with a branch to make instead. */
function BranchOffer({ repository, gitRef, readOnly, close }: BranchOfferProps) {
  const [error, setError] = useState<unknown>();
  if (readOnly) return <p>This repository is read-only: nothing in it can be changed.</p>;
  const make = (event: SubmitEvent) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("branch")).trim();
    createBranch(repository, name, gitRef).then(() => {
      close();
      setQuery({ ref: name });
    }, setError);
  };
  return (
    <form class="form branch-offer" onSubmit={make}>
      <p>Files can be uploaded to a branch that is not protected. Make one from here, and upload there:</p>
      <label>
        Name of the branch
        <input name="branch" required spellcheck={false} />
      </label>
      {error !== undefined && <Failure error={error} />}
      <button type="submit">Make the branch</button>
    </form>
  );
}

interface DroppedFile {
  readonly name: string;
  readonly file: File;
}

/** Returns the dropped files; those in folders have their paths for names. */
async function filesOf(transfer: DataTransfer): Promise<DroppedFile[]> {
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  if (!entries.length) return [...transfer.files].map((file) => ({ name: file.name, file }));
  return (await Promise.all(entries.map((entry) => filesIn(entry, ""))))
    .flat()
    .sort((left, right) => (left.name < right.name ? -1 : 1));
}

/** Not every browser has the classes of entries as globals. */
function isFile(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

async function filesIn(entry: FileSystemEntry, folder: string): Promise<DroppedFile[]> {
  const name = folder + entry.name;
  if (isFile(entry)) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
    return [{ name, file }];
  }
  if (!isDirectory(entry)) return [];
  const reader = entry.createReader();
  const files: DroppedFile[] = [];
  // A reader gives its entries a hundred at a time.
  for (;;) {
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const child of entries) files.push(...(await filesIn(child, `${name}/`)));
  }
}
