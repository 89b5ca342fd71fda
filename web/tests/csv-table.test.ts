import { describe, expect, test } from "vitest";
import { readCsv } from "../src/model/csv-table";

function read(text: string, path = "a.csv") {
  const { names, rows } = readCsv(text, path);
  return [names, ...rows];
}

/** What DuckDB reads of these texts, with the options of `graveler diff --rows`. */
test.each([
  ['id,a\n1,\n2,""\n', ["id", "a"], ["1", undefined], ["2", undefined]],
  ["id,a\n\n1,2\n\n", ["id", "a"], ["1", "2"]],
  ["id\n1\n\n\n", ["id"], ["1"], [undefined], [undefined]],
  ["id,ID\n1,2\n", ["id", "ID_1"], ["1", "2"]],
  ["id,a,A,a_1\n1,2,3,4\n", ["id", "a", "A_1", "a_1_1"], ["1", "2", "3", "4"]],
  [",a\n1,2\n", ["column0", "a"], ["1", "2"]],
  [" id , a\n1,2\n", ["id", "a"], ["1", "2"]],
  ['id,a\n1,a"b\n', ["id", "a"], ["1", 'a"b']],
  ['id,a\n1,"a""b"\n2,""""', ["id", "a"], ["1", 'a"b'], ["2", '"']],
  ['id,a\r\n1,"a\nb"\r\n', ["id", "a"], ["1", "a\nb"]],
  ["id,a\r1,2\r", ["id", "a"], ["1", "2"]],
  ['id,a\n1, "x" \n', ["id", "a"], ["1", "x"]],
  ["id,a\n1,a b \n", ["id", "a"], ["1", "a b "]],
  ["id,a\n", ["id", "a"]],
  ["\ufeffid,a\n1,2\n", ["id", "a"], ["1", "2"]],
  ["id,a\n ,\n", ["id", "a"], [" ", undefined]],
  ["id,a\n3,4\n1,2,\n", ["id", "a"], ["3", "4"], ["1", "2"]],
  ["id,a,\n1,2,\n", ["id", "a", "column2"], ["1", "2", undefined]],
  ["a;b\n1;2,5\n", ["a", "b"], ["1", "2,5"]],
  ["id,a\n1,NULL\n", ["id", "a"], ["1", "NULL"]],
  ["", []],
])("%j", (text, ...expected) => expect(read(text)).toEqual(expected));

test("a separator of two that are equally frequent is the one of the name", () => {
  expect(read("a\tb,c\n1\t2\n", "a.tsv")).toEqual([
    ["a", "b,c"],
    ["1", "2"],
  ]);
});

describe("errors name the line", () => {
  test.each([
    ["id,a\n1,2\n1\n", "line 3 has 1 value, and the first one names 2 columns"],
    ['id,a\n"x\ny",1\n1,2,3\n', "line 4 has 3 values, and the first one names 2 columns"],
    ["id,a\n   \n1,2\n", "line 2 has 1 value, and the first one names 2 columns"],
    ['id,a\n1,"a"b\n', "line 2 has a character behind a closing quote"],
    ['id,a\n1,"abc\n', "line 2 has a quote that is not closed"],
    ["id,a\r\n1,2\n", "its lines end in several ways"],
    ["\nid\n", "its first line, which names the columns, is empty"],
  ])("%j", (text, sentence) => expect(() => read(text)).toThrow(sentence));
});
