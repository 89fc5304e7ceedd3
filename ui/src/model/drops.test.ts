// Tests of dropped records: sums over all causes, first and last times, texts.

import { describe, expect, it } from 'vitest';
import type { CountersAnswer } from '../api';
import { drops, when } from './drops';

const at = (hours: number, minutes: number, seconds: number, day = 22): bigint =>
  BigInt(new Date(2026, 10, day, hours, minutes, seconds).getTime()) * 1_000_000n + 7n;

const counters = (list: CountersAnswer['drops']): CountersAnswer => ({ collector: {}, store: {}, server: {}, drops: list, isDurable: true });

describe('drops', () => {
  it('sums what all ways say, from the first time to the last', () => {
    const found = drops(
      counters([
        { place: 'collector.http', what: 'spansDropped', count: 10, firstNs: String(at(10, 4, 0)), lastNs: String(at(10, 4, 40)) },
        { place: 'collector.scribe', what: 'spansDropped', count: 7, firstNs: String(at(10, 3, 12)), lastNs: String(at(10, 3, 13)) },
        { place: 'store', what: 'spansExpired', count: 5, firstNs: String(at(9, 0, 0)), lastNs: String(at(9, 0, 0)) },
        { place: 'store', what: 'spansLost', count: 3 },
        { place: 'server', what: 'spansDropped', count: 1000 },
      ]),
    ).filter((each) => each.count > 0);
    expect(found.map((each) => [each.count, each.isFault])).toEqual([[17, true], [3, true], [5, false]]);
    const now = at(12, 0, 0);
    expect(found.map((each) => when(each, now))).toEqual(['between 10:03:12 and 10:04:40', 'before the server started', 'at 09:00:00']);
    expect(when(found[0], at(1, 0, 0, 23))).toBe('between 2026-11-22 10:03:12 and 2026-11-22 10:04:40');
  });

  it('says nothing before it knows, and counts nothing where nothing happened', () => {
    expect(drops(null)).toEqual([]);
    expect(drops(counters([])).every((each) => each.count === 0)).toBe(true);
  });
});
