// Tests of finding rows by words.

import { expect, it } from 'vitest';
import { findRows, nextMatch } from './find';
import { treeOf } from './testing';

it('finds services, names and ids', () => {
  const tree = treeOf([
    ['a', '', 0, 10, 'Guest'],
    ['b', 'a', 1, 5, 'osd.1'],
    ['c', 'a', 2, 5, 'osd.2'],
  ]);
  expect([...findRows(tree, 'OSD').rows]).toEqual([0, 1, 1]);
  expect([...findRows(tree, 'osd.2 c').rows]).toEqual([0, 0, 1]);
  expect([...findRows(tree, '000b').rows]).toEqual([0, 1, 0]);
  expect(findRows(tree, 'nothing').count).toBe(0);
});

it('goes around the end', () => {
  const marked = new Uint8Array([0, 1, 0, 1, 0]);
  expect(nextMatch(marked, -1, 1)).toBe(1);
  expect(nextMatch(marked, 1, 1)).toBe(3);
  expect(nextMatch(marked, 3, 1)).toBe(1);
  expect(nextMatch(marked, 1, -1)).toBe(3);
  expect(nextMatch(marked, -1, -1)).toBe(3);
  expect(nextMatch(new Uint8Array(3), 0, 1)).toBe(-1);
});
