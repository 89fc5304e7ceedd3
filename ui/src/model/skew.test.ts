// Tests of clock skew: it is detected and corrected, and asynchronous work is not mistaken for it.

import { expect, it } from 'vitest';
import { corrected } from './skew';
import { CLOCK, fromSpans } from './outline';
import { spanOf, treeOf } from './testing';
import { arrange } from './tree';

const named = (tree: ReturnType<typeof treeOf>, name: string) => tree.names.findIndex((at) => tree.strings[at] === name);

it('marks a call that starts before its caller, or ends after the answer', () => {
  const early = treeOf([['a', '', 3000, 100, 'web', 'client'], ['b', 'a', 0, 80, 'api', 'server'], ['c', 'b', 10, 20, 'api']]);
  expect([...early.skewMarks].map((each, row) => (each ? early.strings[early.names[row]] : '')).join('')).toBe('b');
  expect([early.skewed, early.skewNs]).toEqual([1, 3000]);
  const late = treeOf([['a', '', 0, 100_000, 'web', 'client'], ['b', 'a', 70_000, 80_000, 'api', 'server']]);
  expect([late.skewed, late.skewNs]).toEqual([1, 50_000]);
  // A difference of one microsecond comes from rounding, and is not reported as skew.
  expect(treeOf([['a', '', 1000, 5000, 'web', 'client'], ['b', 'a', 0, 4000, 'api', 'server']]).skewed).toBe(0);
});

it('takes no difference for it that is within the error of the clocks', () => {
  const spans = (clock: string) => {
    const [a, b] = [spanOf('a', '', 3000, 5000, 'web', 'client'), spanOf('b', 'a', 0, 4000, 'api', 'server')];
    const c = spanOf('c', 'b', 10, 20, 'api');
    a.tags = [{ key: CLOCK, value: 'aa-1 500', type: 'string', origin: 'span' }];
    b.tags = [{ key: CLOCK, value: clock, type: 'string', origin: 'span' }];
    return arrange(fromSpans('1', [a, b, c]));
  };
  const within = spans('bb-2 1500');
  expect([within.skewed, within.agreementNs]).toEqual([0, 2000]);
  expect(corrected(within).starts).toEqual(within.starts);
  expect([spans('bb-2 1499').skewed, spans('bb-2 1499').agreementNs]).toEqual([1, 1999]);
  // One machine, and clocks that were not measured.
  expect([spans('aa-1 1500').skewed, spans('aa-1 1500').agreementNs]).toEqual([1, Number.NaN]);
  for (const unknown of ['unknown', 'bb-2', 'bb-2 -1', 'bb-2 soon']) {
    expect([spans(unknown).skewed, spans(unknown).agreementNs]).toEqual([1, Number.NaN]);
  }
});

it('takes nothing asynchronous for it', () => {
  const tree = treeOf([
    ['a', '', 0, 100, 'web', 'server'],
    ['b', 'a', 50, 10, 'web', 'producer'],
    ['c', 'b', 900, 80, 'mail', 'consumer'],
    ['d', 'a', 50, 500, 'log', 'internal'],
  ]);
  expect(tree.skewed).toBe(0);
  expect(corrected(tree).starts).toEqual(tree.starts);
});

it('puts the called one into the middle of its caller, with all that is below it and its events', () => {
  const tree = treeOf([
    ['a', '', 3000, 100, 'web', 'client'],
    ['b', 'a', 0, 80, 'api', 'server'],
    ['c', 'b', 10, 40, 'api', 'client'],
    ['d', 'c', 3022, 30, 'db', 'server'],
  ]);
  const mended = arrange(corrected(tree));
  const start = (name: string) => mended.starts[named(mended, name)];
  expect(start('b') - start('a')).toBe(10);
  expect(start('c') - start('b')).toBe(10);
  // This service's clock was right.
  expect(start('d') - start('a')).toBe(22);
  expect([mended.skewed, mended.rootNs, mended.durationNs, Number(mended.startNs - tree.startNs)]).toEqual([0, 100, 100, 3000]);
  expect(mended.selfs[named(mended, 'a')]).toBe(20);
});

it('gives a service one clock', () => {
  const tree = treeOf([
    ['a', '', 3000, 1000, 'web', 'client'],
    ['b', 'a', 0, 800, 'api', 'server'],
    ['e', 'a', 500, 100, 'api', 'server'],
  ]);
  const mended = arrange(corrected(tree));
  expect(mended.starts[named(mended, 'e')] - mended.starts[named(mended, 'b')]).toBe(500);
});
