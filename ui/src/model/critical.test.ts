// Tests of the critical path.

import { describe, expect, it } from 'vitest';
import { criticalPath, mainRoot } from './critical';
import { treeOf } from './testing';

function told(spans: Parameters<typeof treeOf>[0]): string[] {
  const tree = treeOf(spans);
  const path = criticalPath(tree);
  return [...path.rows].map((row, at) => `${tree.strings[tree.names[row]]} ${path.froms[at]}-${path.tos[at]}`);
}

describe('criticalPath', () => {
  it('follows the child that ended last, back to the start', () => {
    expect(
      told([
        ['a', '', 0, 100],
        ['b', 'a', 10, 30],
        ['c', 'a', 50, 40],
        ['d', 'c', 60, 10],
      ]),
    ).toEqual(['a 0-10', 'b 10-40', 'a 40-50', 'c 50-60', 'd 60-70', 'c 70-90', 'a 90-100']);
  });

  it('takes of two at once the one that was waited for', () => {
    expect(
      told([
        ['a', '', 0, 100],
        ['b', 'a', 10, 80],
        ['c', 'a', 10, 40],
      ]),
    ).toEqual(['a 0-10', 'b 10-90', 'a 90-100']);
  });

  it('cuts children that outlive their parent', () => {
    expect(
      told([
        ['a', '', 0, 100],
        ['b', 'a', 50, 500],
      ]),
    ).toEqual(['a 0-50', 'b 50-100']);
  });

  it('covers the root without gaps and without overlaps', () => {
    const tree = treeOf([
      ['a', '', 0, 1000],
      ['b', 'a', 5, 300],
      ['c', 'b', 4, 200],
      ['d', 'a', 200, 500],
      ['e', 'd', 650, 100],
      ['f', 'a', 990, 400],
    ]);
    const path = criticalPath(tree);
    let cursor = 0;
    for (let at = 0; at < path.rows.length; at += 1) {
      expect(path.froms[at]).toBe(cursor);
      cursor = path.tos[at];
    }
    expect(cursor).toBe(1000);
    for (let row = 0; row < tree.ends.length; row += 1) {
      for (let at = path.firsts[row]; at < path.firsts[row + 1]; at += 1) expect(path.rows[path.byRow[at]]).toBe(row);
    }
  });

  it('starts at the root that took longest', () => {
    const tree = treeOf([
      ['a', '', 0, 10],
      ['b', '', 5, 50],
      ['c', 'f', 6, 20],
    ]);
    expect(tree.strings[tree.names[mainRoot(tree)]]).toBe('b');
  });

  it('is nothing where no time is known', () => {
    expect(told([['a', '', null, null]])).toEqual([]);
    expect(told([])).toEqual([]);
  });
});
