import { describe, expect, test } from "vitest";
import { type Address, formatAddress, parseAddress, safeNext } from "../src/model/addresses";

const KNOWN: readonly (readonly [path: string, screen: Address["screen"], repository: string, subject: string])[] = [
  ["", "repositories", "", ""],
  ["repositories", "repositories", "", ""],
  ["repositories/", "repositories", "", ""],
  ["repositories/sales", "objects", "sales", ""],
  ["repositories/sales/objects", "objects", "sales", ""],
  ["repositories/sales/object", "object", "sales", ""],
  ["repositories/sales/commits", "commits", "sales", ""],
  ["repositories/sales/commits/4e1c77a", "commit", "sales", "4e1c77a"],
  ["repositories/sales/commits/v1%2Frc", "commit", "sales", "v1/rc"],
  ["repositories/sales/branches", "branches", "sales", ""],
  ["repositories/sales/branches/a%2Fb/revert", "revert", "sales", "a/b"],
  ["repositories/sales/tags", "tags", "sales", ""],
  ["repositories/sales/compare", "compare", "sales", ""],
  ["repositories/sales/reflog", "reflog", "sales", ""],
  ["repositories/sales/uncommitted", "uncommitted", "sales", ""],
  ["auth/login", "login", "", ""],
  ["auth/credentials", "credentials", "", ""],
  ["auth/users/ana", "credentials", "", ""],
  ["setup", "login", "", ""],
  ["repositories/sales/other", "absent", "sales", ""],
  ["other", "absent", "", ""],
];

describe("addresses", () => {
  test.each(KNOWN)("%s is %s", (path, screen, repository, subject) => {
    expect(parseAddress(path, "")).toEqual({ screen, repository, subject, query: {} });
  });

  test("every name returns unchanged", () => {
    for (const name of ["a b", "100%", "%41", "a/b", "#?&=+", "..", "<script>", "ä\u202e\n", '"quoted"']) {
      const address: Address = { screen: "revert", repository: name, subject: name, query: { ref: name, path: name } };
      const [path = "", search = ""] = formatAddress(address).split("?");
      expect(parseAddress(path, search)).toEqual(address);
    }
  });

  test("a segment that is not percent-encoding is the name", () => {
    expect(parseAddress("repositories/100%/objects", "").repository).toBe("100%");
  });

  test.each(["//evil.example", "/\\evil.example", "https://evil.example", "evil", "", "/a\\b", "/a\nb", "javascript:alert(1)"])(
    "%j is no address to go to",
    (next) => expect(safeNext(next)).toBe(""),
  );

  test.each(["/..//evil.test", "/.//evil.test", "/repositories/../..//evil.test", "/%2e%2e//evil.test"])(
    "%j leads to an address that begins with two slashes, and is refused",
    (next) => expect(safeNext(next)).toBe(""),
  );

  test("a path of this origin is", () => expect(safeNext("/repositories/a?ref=b")).toBe("/repositories/a?ref=b"));
});
