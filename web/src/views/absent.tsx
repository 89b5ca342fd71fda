/** The screen for an address that names nothing. */
import type { Address } from "../model/addresses";
import { Link, useTitle } from "../parts/navigation";

/** Says that nothing is here, and where to go on. */
export function Absent({ address }: { readonly address: Address }) {
  useTitle("Nothing here");
  return (
    <main class="prose">
      <h1>Nothing is at this address</h1>
      <p>
        {address.repository ? (
          <Link to={{ screen: "objects", repository: address.repository }}>Go to the repository {address.repository}</Link>
        ) : (
          <Link to={{ screen: "repositories" }}>Go to the repositories</Link>
        )}
      </p>
    </main>
  );
}
