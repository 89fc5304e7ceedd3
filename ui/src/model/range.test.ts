// Tests of time ranges and of the part of a range that has data.

import { expect, it } from 'vitest';
import { overlapNs, rangeOf } from './range';

const NOW = 1_764_000_000_000;
const ns = (ms: number) => BigInt(NOW + ms) * 1_000_000n;

it('ends ranges that end now a minute later, and no later', () => {
  for (const name of ['5m', '1h', '7d', 'all']) expect(rangeOf(name, null, null, NOW).endNs, name).toBe(ns(60_000));
  expect(rangeOf(null, '5', '9', NOW)).toEqual({ name: '', startNs: 5n, endNs: 9n });
});

it('divides rates by the overlap of range and data', () => {
  const hour = rangeOf('1h', null, null, NOW);
  const all = rangeOf('all', null, null, NOW);
  // Four minutes of data count as four minutes for any range, even with a clock two hours ahead.
  for (const range of [hour, all]) {
    expect(overlapNs(range, ns(-240_000), ns(-1000), NOW)).toBe(240e9);
    expect(overlapNs(range, ns(-240_000), ns(7_200_000), NOW)).toBe(240e9);
  }
  expect(overlapNs(hour, ns(-86_400_000), ns(0), NOW)).toBe(3600e9);
  expect(overlapNs(hour, ns(-86_400_000), ns(-1_800_000), NOW)).toBe(1800e9);
  expect(overlapNs({ startNs: null, endNs: null }, null, null, NOW)).toBeNaN();
});
