// Tests of the tree: row order, self time, collapsing, cycles, lost parents and unknown times.

import { describe, expect, it } from 'vitest';
import { fromAnswer, fromSpans, idOf, LOST_PARENT } from './outline';
import { outlineOf, spanOf, treeOf } from './testing';
import { arrange, eachOwn, foldBelow, placeOf, reveal, unfolded } from './tree';

describe('arrange', () => {
  it('puts rows in the order of a walk, children by start', () => {
    const tree = treeOf([
      ['c', 'b', 30, 10],
      ['b', 'a', 20, 40],
      ['d', 'a', 10, 5],
      ['a', '', 0, 100],
    ]);
    expect(Array.from({ length: 4 }, (_, row) => idOf(tree, row).at(-1))).toEqual(['a', 'd', 'b', 'c']);
    expect([...tree.depths]).toEqual([0, 1, 1, 2]);
    expect([...tree.ends]).toEqual([4, 2, 4, 4]);
    expect([...tree.parents]).toEqual([-1, 0, 0, 2]);
  });

  it('counts own time without what children cover, however they overlap', () => {
    const tree = treeOf([
      ['a', '', 0, 100],
      ['b', 'a', 10, 30],
      ['c', 'a', 20, 30],
      ['d', 'a', 90, 50],
    ]);
    // Self time is 0 to 10 and 50 to 90.
    expect(tree.selfs[0]).toBe(50);
    const pieces: number[][] = [];
    eachOwn(tree, 0, (from, to) => pieces.push([from, to]));
    expect(pieces).toEqual([[0, 10], [50, 90]]);
  });

  it('does not count children that lie outside', () => {
    const tree = treeOf([
      ['a', '', 100, 100],
      ['b', 'a', 0, 50],
      ['c', 'a', 90, 30],
      ['d', 'a', 300, 10],
    ]);
    const a = [...tree.depths].findIndex((_, row) => idOf(tree, row).endsWith('a'));
    expect(tree.selfs[a]).toBe(80);
    expect(tree.greatest - tree.least).toBe(310);
  });

  it('takes circles apart', () => {
    const tree = treeOf([
      ['a', 'b', 0, 10],
      ['b', 'c', 1, 10],
      ['c', 'a', 2, 10],
      ['d', 'd', 3, 10],
    ]);
    expect(tree.ends.length).toBe(4);
    expect([...tree.parents].filter((parent) => parent === LOST_PARENT).length).toBe(2);
    expect(unfolded(tree, new Uint8Array(4)).length).toBe(4);
  });

  it('knows spans without times', () => {
    const tree = treeOf([
      ['a', '', 0, 100],
      ['b', 'a', null, 30],
      ['c', 'a', 10, null],
    ]);
    expect(tree.selfs[0]).toBe(100);
    expect([...tree.selfs].filter(Number.isNaN).length).toBe(1);
  });

  it('sorts annotations by row and time', () => {
    const span = spanOf('a', '', 0, 100);
    const child = spanOf('b', 'a', 10, 10);
    span.annotations = [{ timeNs: '1050', value: 'late' }, { timeNs: '1010', value: 'early' }];
    child.annotations = [{ timeNs: '1015', value: 'inner' }];
    const tree = arrange(fromSpans('1', [child, span]));
    expect([...tree.notes.values].map((value) => tree.strings[value])).toEqual(['early', 'late', 'inner']);
    expect([...tree.firstNotes]).toEqual([0, 2, 3]);
  });
});

describe('folding', () => {
  const tree = treeOf([
    ['a', '', 0, 100],
    ['b', 'a', 1, 50],
    ['c', 'b', 2, 20],
    ['d', 'a', 60, 10],
  ]);

  it('leaves out what is below', () => {
    const folded = new Uint8Array([0, 1, 0, 0]);
    expect([...unfolded(tree, folded)]).toEqual([0, 1, 3]);
    expect(placeOf(unfolded(tree, folded), 3)).toBe(2);
    expect(placeOf(unfolded(tree, folded), 2)).toBe(-1);
  });

  it('unfolds what a row is below', () => {
    const folded = foldBelow(tree, 0);
    expect([...unfolded(tree, folded)]).toEqual([0]);
    expect(reveal(tree, folded, 2)).toBe(true);
    expect([...unfolded(tree, folded)]).toEqual([0, 1, 2, 3]);
    expect(reveal(tree, folded, 2)).toBe(false);
  });
});

describe('fromAnswer', () => {
  it('reads the server’s columns', () => {
    const tree = arrange(fromAnswer(outlineOf()));
    expect(tree.spans).toBe(9);
    expect(tree.ends.length).toBe(3);
    expect(tree.startNs).toBe(1_764_000_000_123_456_789n);
    expect(idOf(tree, 0)).toBe('00000000deadbeef');
    expect(tree.strings[tree.services[1]]).toBe('osd.3');
  });

  it('refuses columns of different lengths and ids that are none', () => {
    expect(() => fromAnswer({ ...outlineOf(), kinds: [0] })).toThrow('same length');
    expect(() => fromAnswer({ ...outlineOf(), ids: ['x', '1', '2'] })).toThrow('no id');
    expect(() => fromAnswer(null as never)).toThrow('not an outline');
  });

  it('does not trust indices', () => {
    const odd = { ...outlineOf(), parents: [5, 1, -7], services: [99, -4, 0.5], names: [0, 0, 0] };
    const columns = fromAnswer(odd);
    expect([...columns.parents]).toEqual([LOST_PARENT, LOST_PARENT, LOST_PARENT]);
    expect([...columns.services]).toEqual([-1, -1, -1]);
  });
});

it('takes the duration of the earliest root, and says where failures began and how far clocks are apart', () => {
  const tree = treeOf([
    ['b', 'a', 10, 2000, 'mailer', 'consumer'],
    ['a', '', 0, 100, 'shop', 'server'],
    ['c', 'a', 50, 20, 'shop'],
  ]);
  expect([tree.root, tree.rootNs, tree.durationNs, tree.skewed]).toEqual([0, 100, 2010, 0]);
  const spans = [spanOf('a', '', 3000, 10_000, 'web'), spanOf('b', 'a', 0, 8000, 'api'), spanOf('c', 'b', 4000, 500, 'api')];
  const failed = arrange(fromSpans('1', spans.map((span) => ({ ...span, isError: true }))));
  expect([...failed.errors]).toEqual([1, 1, 1]);
  expect([...failed.origins]).toEqual([0, 0, 1]);
  expect([failed.skewed, failed.skewNs]).toEqual([1, 3000]);
  // If the root has no duration, the extent of all spans is used.
  expect(treeOf([['a', '', 0, null], ['b', 'a', 10, 40]]).rootNs).toBe(50);
});
