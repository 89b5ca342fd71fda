/** The tags of a repository. */
import { createTag, deleteTag, listTags } from "../api/endpoints";
import type { Address } from "../model/addresses";
import { RefList } from "./ref-list";

const PAGE = 100;

/** The tags whose names begin with `prefix`. */
export function Tags({ address }: { readonly address: Address }) {
  const { repository } = address;
  return (
    <RefList
      address={address}
      kind={{
        title: "Tags",
        noun: "tag",
        plural: "tags",
        key: "tags",
        list: (after, prefix, signal) => listTags(repository, { after, prefix, amount: PAGE, details: "commit" }, signal),
        create: (name, source) => createTag(repository, name, source),
        remove: (tag) => deleteTag(repository, tag.id),
      }}
    />
  );
}
