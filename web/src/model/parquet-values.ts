/** Values of Parquet columns as text. They come as they are stored, so that nothing is rounded on the way. */
import type { SchemaElement } from "hyparquet";

const MOST_BYTES = 32;
const MOST_SCALE = 100;
const MOST_DECIMAL_BYTES = 64;
export const NANOSECONDS_PER_DAY = 86_400_000_000_000n;
/** Nanoseconds of the units in which times are stored. */
export const UNITS = { MILLIS: 1_000_000n, MICROS: 1000n, NANOS: 1n } as const;
const DIGITS = { MILLIS: 3, MICROS: 6, NANOS: 9 } as const;

type Unit = keyof typeof UNITS;

/** Returns the text of a stored value of a column; undefined for null. */
export function valueText(value: unknown, element: SchemaElement): string | undefined {
  if (value === null || value === undefined) return undefined;
  const scale = decimalScale(element);
  if (value instanceof Uint8Array) return bytesText(value, element, scale);
  if (typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value))) {
    return scale === undefined ? integerText(value, element) : decimalText(BigInt(value), scale);
  }
  // A statistic of decimals; hyparquet has divided it.
  return scale !== undefined && typeof value === "number" ? value.toFixed(scale) : String(value);
}

const MOST_ITEMS = 100;

/** Returns the text of a value of a nested column, much as JSON; `elements` are those of the column in the schema. */
export function nestedText(value: unknown, elements: readonly SchemaElement[]): string | undefined {
  if (value === null || value === undefined) return undefined;
  return jsonOf(value, treeOf(elements, 0).node);
}

/** An element of the schema with those in it. */
export interface Node {
  readonly element: SchemaElement;
  readonly children: readonly Node[];
}

/** Returns a column of the schema as a tree: the element at `place`, those in it, and the place behind it. */
export function treeOf(elements: readonly SchemaElement[], place: number): { readonly node: Node; readonly end: number } {
  const element = elements[place] ?? { name: "" };
  const children: Node[] = [];
  let end = place + 1;
  for (let child = 0; child < (element.num_children ?? 0); child += 1) {
    const subtree = treeOf(elements, end);
    children.push(subtree.node);
    end = subtree.end;
  }
  return { node: { element, children }, end };
}

function jsonOf(value: unknown, node: Node): string {
  if (value === null || value === undefined) return "null";
  const [first] = node.children;
  if (Array.isArray(value)) {
    const isList = node.element.converted_type === "LIST" && first;
    const item = isList ? (first.children.length === 1 ? (first.children[0] ?? first) : first) : node;
    const shown = value.slice(0, MOST_ITEMS).map((part: unknown) => jsonOf(part, item));
    return `[${shown.join(", ")}${value.length > MOST_ITEMS ? `, … (${value.length} items)` : ""}]`;
  }
  if (first && typeof value === "object") {
    const pair = node.element.converted_type === "MAP" ? first.children[1] : undefined;
    const parts = Object.entries(value)
      .slice(0, MOST_ITEMS)
      .map(([name, part]) => {
        const child = pair ?? node.children.find((candidate) => candidate.element.name === name) ?? node;
        return `${JSON.stringify(name)}: ${jsonOf(part, child)}`;
      });
    return `{${parts.join(", ")}}`;
  }
  const text = valueText(value, node.element) ?? "null";
  return typeof value !== "string" && /^(-?\d+(\.\d+)?|true|false)$/.test(text) ? text : JSON.stringify(text);
}

/** Returns the scale of a column of decimals; undefined for other columns, and where it is none that a decimal can have. */
export function decimalScale({ logical_type, converted_type, scale = 0 }: SchemaElement): number | undefined {
  const digits = logical_type?.type === "DECIMAL" ? logical_type.scale : converted_type === "DECIMAL" ? scale : undefined;
  return digits !== undefined && digits >= 0 && digits <= MOST_SCALE ? digits : undefined;
}

/** Returns a decimal from its unscaled value. */
export function decimalText(unscaled: bigint, scale: number): string {
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, "0");
  const sign = unscaled < 0n ? "-" : "";
  return scale > 0 ? `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}` : `${sign}${digits}`;
}

/** Reads a big-endian two's complement number. */
export function signed(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return BigInt.asIntN(bytes.length * 8, value);
}

function integerText(value: number | bigint, element: SchemaElement): string {
  const { logical_type: logical, converted_type: converted, type } = element;
  if (type === "INT96") return instantText(BigInt(value), 9, false);
  if (type !== "INT32" && type !== "INT64") return String(value);
  if (logical?.type === "DATE" || converted === "DATE") return dateText(BigInt(value) * NANOSECONDS_PER_DAY) ?? String(value);
  const stamp = timeUnit(element, "TIMESTAMP");
  if (stamp) return instantText(BigInt(value) * UNITS[stamp.unit], DIGITS[stamp.unit], stamp.utc);
  const time = timeUnit(element, "TIME");
  if (time) return clockText(BigInt(value) * UNITS[time.unit], DIGITS[time.unit]);
  const unsigned = logical?.type === "INTEGER" ? !logical.isSigned : converted?.startsWith("UINT_");
  return unsigned ? BigInt.asUintN(type === "INT32" ? 32 : 64, BigInt(value)).toString() : String(value);
}

/** Returns the unit of a column of times of a kind, and whether they are of UTC; undefined for other columns. */
export function timeUnit(
  element: SchemaElement,
  kind: "TIMESTAMP" | "TIME",
): { readonly unit: Unit; readonly utc: boolean } | undefined {
  const { logical_type: logical, converted_type: converted } = element;
  if (logical?.type === kind) return { unit: logical.unit, utc: logical.isAdjustedToUTC };
  if (converted === `${kind}_MILLIS`) return { unit: "MILLIS", utc: true };
  return converted === `${kind}_MICROS` ? { unit: "MICROS", utc: true } : undefined;
}

/** Returns a time in nanoseconds since 1970 with as many digits of a second as it needs; `Z` if it is of UTC, nothing if it is of no zone. */
export function instantText(nanoseconds: bigint, digits: number, utc: boolean): string {
  const date = dateText(nanoseconds);
  if (date === undefined) return `${nanoseconds} ns`;
  const rest = ((nanoseconds % NANOSECONDS_PER_DAY) + NANOSECONDS_PER_DAY) % NANOSECONDS_PER_DAY;
  return `${date} ${clockText(rest, digits)}${utc ? "Z" : ""}`;
}

function dateText(nanoseconds: bigint): string | undefined {
  const days =
    (nanoseconds - (((nanoseconds % NANOSECONDS_PER_DAY) + NANOSECONDS_PER_DAY) % NANOSECONDS_PER_DAY)) / NANOSECONDS_PER_DAY;
  const date = new Date(Number(days) * 86_400_000);
  if (Number.isNaN(date.getTime())) return undefined;
  return date.toISOString().slice(0, date.toISOString().indexOf("T"));
}

function clockText(nanoseconds: bigint, digits: number): string {
  const seconds = nanoseconds / 1_000_000_000n;
  const parts = [seconds / 3600n, (seconds / 60n) % 60n, seconds % 60n].map((part) => part.toString().padStart(2, "0"));
  const fraction = (nanoseconds % 1_000_000_000n).toString().padStart(9, "0").slice(0, digits).replace(/0+$/, "");
  return parts.join(":") + (fraction && `.${fraction}`);
}

function bytesText(bytes: Uint8Array, element: SchemaElement, scale: number | undefined): string {
  const { logical_type: logical, converted_type: converted, type } = element;
  if (scale !== undefined && bytes.length <= MOST_DECIMAL_BYTES) return decimalText(signed(bytes), scale);
  if (logical?.type === "UUID" && bytes.length === 16) {
    return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }
  if (logical?.type === "FLOAT16" && bytes.length === 2) return String(halfFloat(bytes));
  if (converted === "INTERVAL" && bytes.length === 12) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, 12);
    const [months, days, milliseconds] = [0, 4, 8].map((place) => view.getUint32(place, true));
    return `${months} months ${days} days ${milliseconds} ms`;
  }
  return (type === "BYTE_ARRAY" && printable(bytes)) || shownHex(bytes);
}

/** Returns bytes as text if that is what they are. */
function printable(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? undefined : text;
  } catch {
    return undefined; // no UTF-8
  }
}

function shownHex(bytes: Uint8Array): string {
  const more = bytes.length > MOST_BYTES ? `… (${bytes.length} bytes)` : "";
  return `0x${hex(bytes.subarray(0, MOST_BYTES))}${more}`;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Reads a floating point number of two bytes. */
export function halfFloat(bytes: Uint8Array): number {
  const bits = (bytes[0] ?? 0) | ((bytes[1] ?? 0) << 8);
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 0x1f, bits & 0x3ff];
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}
