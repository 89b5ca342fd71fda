/** Statistics of Parquet columns as text. They are what a file says about itself, so nothing is expected of them. */
import type { ParquetColumn } from "./parquet-file";
import { valueText } from "./parquet-values";
import { counted, shortened, visible } from "./text";

const MOST_CHARACTERS = 26;

/** Returns the smallest and largest value of a column, each shortened; the empty string where the footer has none. */
export function spanText({ least, largest, element }: Pick<ParquetColumn, "least" | "largest" | "element">): string {
  const [from, to] = [least, largest].map((value) => {
    // Those of floating point are shown with six digits, as an order of magnitude.
    const isFloat = typeof value === "number" && (element.type === "FLOAT" || element.type === "DOUBLE");
    return isFloat ? String(Number(value.toPrecision(6))) : valueText(value, element);
  });
  if (from === undefined || to === undefined) return "";
  const short = (text: string) => visible(shortened(text, MOST_CHARACTERS));
  return from === to ? short(from) : `${short(from)}…${short(to)}`;
}

/** Returns the number of nulls of a column, and their share; a dash where the footer has none. */
export function nullsText({ nulls, values }: Pick<ParquetColumn, "nulls" | "values">): string {
  if (nulls === undefined) return "–";
  const share = nulls && values ? ` ${((nulls / values) * 100).toFixed(1)}%` : "";
  return `${counted(nulls, "null")}${share}`;
}
