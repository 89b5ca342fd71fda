/**
 * What values of Parquet columns are compared by. Types have DuckDB's names, since `graveler diff --rows` compares in DuckDB: equal numbers
 * and equal times are equal in any type, NaN is equal to itself and -0 to 0; other types have only their texts in common.
 */
import type { SchemaElement } from "hyparquet";
import {
  decimalScale,
  decimalText,
  halfFloat,
  NANOSECONDS_PER_DAY,
  type Node,
  signed,
  timeUnit,
  treeOf,
  UNITS,
  valueText,
} from "./parquet-values";
import type { Pair } from "./row-codes";

type Family = "number" | "moment" | "time" | "truth" | "text" | "bytes" | "other" | "nested";

/** A column's type. */
export interface RowKind {
  /** Its name in DuckDB. */
  readonly type: string;
  readonly family: Family;
  /** Whether it has measures, which are no keys. */
  readonly measure: boolean;
  readonly node: Node;
}

/** Returns what a value is compared by; undefined for null. Throws an error for text that is not UTF-8. */
export type Identify = (value: unknown) => string | undefined;

/** Returns the type of a column, which has these elements of the schema. */
export function kindOf(elements: readonly SchemaElement[]): RowKind {
  const { node } = treeOf(elements, 0);
  const type = typeOf(node);
  return { type, family: familyOf(node, type), measure: /^(FLOAT|DOUBLE|BOOLEAN)$/.test(type), node };
}

/** Returns how the values of both sides are compared. Throws an error for nested columns of two types. */
export function identities([before, after]: Pair<RowKind>): Pair<Identify> {
  if (before.family === "nested" || after.family === "nested") {
    if (before.type !== after.type) throw new Error(`it is nested, and has another type after the change`);
    return [nestedIdentity(before.node), nestedIdentity(after.node)];
  }
  if (before.family === after.family) return [identityOf(before), identityOf(after)];
  const families = [before.family, after.family];
  if (families.includes("text") && families.includes("bytes")) return [bytesIdentity, bytesIdentity];
  return [textIdentity(before), textIdentity(after)];
}

/** Elements whose groups become plain ones, so that maps keep the order and the repetition of their entries. */
export function withoutMaps(elements: readonly SchemaElement[]): readonly SchemaElement[] {
  return elements.map((element) => {
    if (!element.num_children || !/^MAP/.test(`${element.converted_type}`)) return element;
    const { converted_type: _converted, logical_type: _logical, ...group } = element;
    return group;
  });
}

const INTEGERS: Readonly<Record<string, string>> = { 8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT" };

function typeOf({ element, children }: Node): string {
  if (element.repetition_type === "REPEATED") {
    return `${typeOf({ element: { ...element, repetition_type: "REQUIRED" }, children })}[]`;
  }
  const [child] = children;
  if (!child) return leafType(element);
  if (element.converted_type === "LIST" && children.length === 1) {
    const [item] = child.children;
    return child.children.length === 1 && item ? `${typeOf(item)}[]` : typeOf(child);
  }
  if (/^MAP/.test(`${element.converted_type}`) && child.children.length === 2) {
    return `MAP(${child.children.map(typeOf).join(", ")})`;
  }
  return `STRUCT(${children.map((part) => `${part.element.name} ${typeOf(part)}`).join(", ")})`;
}

function leafType(element: SchemaElement): string {
  const { type, logical_type: logical, converted_type: converted } = element;
  const scale = decimalScale(element);
  if (scale !== undefined)
    return `DECIMAL(${(logical?.type === "DECIMAL" && logical.precision) || element.precision || 0},${scale})`;
  switch (type) {
    case "INT32":
    case "INT64":
      return integerType(element);
    case "INT96":
      return "TIMESTAMP";
    case "BYTE_ARRAY":
      if (logical?.type === "JSON" || converted === "JSON") return "JSON";
      return /^(STRING|ENUM)$/.test(`${logical?.type}`) || /^(UTF8|ENUM)$/.test(`${converted}`) ? "VARCHAR" : "BLOB";
    case "FIXED_LEN_BYTE_ARRAY":
      if (logical?.type === "FLOAT16") return "FLOAT";
      return logical?.type === "UUID" ? "UUID" : converted === "INTERVAL" ? "INTERVAL" : "BLOB";
    default:
      return type ?? "unknown";
  }
}

function integerType(element: SchemaElement): string {
  const { type, logical_type: logical, converted_type: converted } = element;
  if (logical?.type === "NULL") return '"NULL"';
  if (logical?.type === "INTEGER") return `${logical.isSigned ? "" : "U"}${INTEGERS[logical.bitWidth]}`;
  const [, sign, bits] = /^(U?)INT_(8|16|32|64)$/.exec(`${converted}`) ?? [];
  if (bits) return `${sign}${INTEGERS[bits]}`;
  return timeType(element) ?? (type === "INT32" ? "INTEGER" : "BIGINT");
}

function timeType(element: SchemaElement): string | undefined {
  if (element.logical_type?.type === "DATE" || element.converted_type === "DATE") return "DATE";
  const time = timeUnit(element, "TIME");
  if (time) return time.unit === "NANOS" ? "TIME_NS" : "TIME";
  const stamp = timeUnit(element, "TIMESTAMP");
  if (stamp?.unit === "NANOS") return stamp.utc ? "TIMESTAMPTZ_NS" : "TIMESTAMP_NS";
  return stamp && (stamp.utc ? "TIMESTAMP WITH TIME ZONE" : "TIMESTAMP");
}

function familyOf({ children, element }: Node, type: string): Family {
  if (children.length || element.repetition_type === "REPEATED") return "nested";
  if (/^(DECIMAL|U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE)/.test(type)) return "number";
  if (/^(DATE|TIMESTAMP)/.test(type)) return "moment";
  if (/^TIME/.test(type)) return "time";
  if (type === "BOOLEAN") return "truth";
  if (type === "VARCHAR" || type === "JSON") return "text";
  return type === "BLOB" ? "bytes" : "other";
}

/** Returns what the values of a type are compared by with values of the same family. */
function identityOf({ family, node: { element } }: RowKind): Identify {
  switch (family) {
    case "number":
      return (value) => (value === null || value === undefined ? undefined : numberIdentity(value, element));
    case "moment":
      return (value) => (value === null || value === undefined ? undefined : momentIdentity(value, element));
    case "text":
      return (value) => (typeof value === "string" ? checkedText(value) : bytesIdentity(value));
    case "bytes":
      return bytesIdentity;
    default:
      return (value) => valueText(value, element);
  }
}

function numberIdentity(value: unknown, element: SchemaElement): string {
  const scale = decimalScale(element);
  if (scale !== undefined) {
    const text = decimalText(value instanceof Uint8Array ? signed(value) : BigInt(value as number | bigint), scale);
    return scale ? text.replace(/\.?0+$/, "") : text;
  }
  if (value instanceof Uint8Array) return doubleIdentity(halfFloat(value));
  if (element.type === "FLOAT" || element.type === "DOUBLE") return doubleIdentity(value as number);
  return valueText(value, element) ?? "";
}

/** Returns a number with all digits of a whole one, and else the fewest that read back as it. */
function doubleIdentity(value: number): string {
  if (Number.isInteger(value)) return Math.abs(value) < 2 ** 53 ? String(value + 0) : BigInt(value).toString();
  const text = String(value);
  const [, sign, digits, rest, exponent] = /^(-?)(\d)(?:\.(\d+))?e-(\d+)$/.exec(text) ?? [];
  return exponent ? `${sign}0.${"0".repeat(Number(exponent) - 1)}${digits}${rest ?? ""}` : text;
}

/** Returns the nanoseconds since 1970. INT96 is read in microseconds, as by DuckDB. */
function momentIdentity(value: unknown, element: SchemaElement): string {
  const number = BigInt(value as number | bigint);
  if (element.type === "INT96") return String(((number - (((number % 1000n) + 1000n) % 1000n)) / 1000n) * 1000n);
  const stamp = timeUnit(element, "TIMESTAMP");
  return String(number * (stamp ? UNITS[stamp.unit] : NANOSECONDS_PER_DAY));
}

function checkedText(text: string): string {
  // The decoder's mark for bytes that are no UTF-8: two texts that differ in them would be equal.
  if (text.includes("\ufffd")) throw new Error("it has text that is not UTF-8, or the character U+FFFD");
  return text;
}

/** Returns bytes as a string with a character for each. */
function bytesIdentity(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  const bytes = value instanceof Uint8Array ? value : new TextEncoder().encode(checkedText(String(value)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

/** Returns the texts of a type, as DuckDB writes them. */
function textIdentity({ family, node: { element } }: RowKind): Identify {
  return (value) => {
    if (value === null || value === undefined) return undefined;
    if (typeof value === "string") return checkedText(value);
    if (element.type === "FLOAT" || element.type === "DOUBLE") return doubleText(value as number, element.type === "FLOAT");
    const text = valueText(value, element);
    return family === "moment" ? text?.replace(/Z$/, "+00") : text;
  };
}

/** Returns a floating point number as DuckDB writes it: `1.0`, `1e+16`, `1e-05`, with the fewest digits that read back as it. */
function doubleText(value: number, single: boolean): string {
  if (!Number.isFinite(value)) return String(value).replace("NaN", "nan").replace("Infinity", "inf");
  let shortest = String(value);
  for (let digits = 1; single && digits < 10; digits += 1) {
    shortest = value.toPrecision(digits);
    if (Math.fround(Number(shortest)) === value) break;
  }
  const [mantissa = "", exponent = "0"] = Number(shortest).toExponential().split("e");
  const power = Number(exponent);
  if (value !== 0 && (power < -4 || power >= 16)) {
    return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const plain = String(Number(shortest));
  return Number.isInteger(value) ? `${plain}.0` : doubleIdentity(Number(shortest));
}

/** Returns what nested values are compared by: all they hold, in order. */
function nestedIdentity(node: Node): Identify {
  return (value) => (value === null || value === undefined ? undefined : nested(value, node));
}

function nested(value: unknown, node: Node): string {
  if (value === null || value === undefined) return "null";
  const [child] = node.children;
  if (Array.isArray(value)) {
    const isList = node.element.converted_type === "LIST" && child;
    const item = isList ? (child.children.length === 1 ? (child.children[0] ?? child) : child) : node;
    return `[${value.map((part: unknown) => nested(part, item)).join()}]`;
  }
  if (child)
    return `{${node.children.map((part) => nested((value as Record<string, unknown>)[part.element.name], part)).join()}}`;
  const type = leafType(node.element);
  const family = familyOf({ element: { ...node.element, repetition_type: "REQUIRED" }, children: [] }, type);
  return JSON.stringify(identityOf({ type, family, measure: false, node })(value));
}
