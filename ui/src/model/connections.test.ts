// Tests of the selection of connections that the map draws and lists.

import { expect, it } from 'vitest';
import type { Link } from '../api';
import { BUSIEST, busiestService, drawnOf, errorTint, listedOf, namesOf } from './connections';

const link = (parent: string, child: string, calls = 1): Link => ({ parent, child, calls, errors: 0, percentilesNs: {} });
const LARGE = Array.from({ length: 300 }, (_, at) => link(`s${at}`, `s${(at * 7 + 1) % 300}`, at));
const NONE = { service: '', find: '', isWhole: false };

it('draws all of a small map, whatever is chosen', () => {
  const small = [link('a', 'b'), link('b', 'c')];
  expect(drawnOf(small, { ...NONE, service: 'a' })).toEqual({ links: small, part: 'all' });
});

it('draws the busiest services of a large map, and all where that is asked for', () => {
  const { links, part } = drawnOf(LARGE, NONE);
  expect(part).toBe('busiest');
  expect(namesOf(links).length).toBeLessThanOrEqual(BUSIEST);
  expect(links).toContain(LARGE[299]);
  expect(drawnOf(LARGE, { ...NONE, isWhole: true }).links.length).toBe(300);
});

it('draws and lists a chosen service with its neighbours, or those that are searched for', () => {
  const chosen = drawnOf(LARGE, { ...NONE, service: 's8' });
  expect([chosen.part, chosen.links.every((each) => each.parent === 's8' || each.child === 's8')]).toEqual(['neighbours', true]);
  const found = drawnOf(LARGE, { ...NONE, find: 'S29' });
  expect([found.part, found.links.every((each) => /^s29/.test(each.parent) || /^s29/.test(each.child))]).toEqual(['found', true]);
  expect(listedOf(LARGE, { service: '', find: 'nobody' }).length).toBe(300);
});

it('knows the busiest service', () => {
  expect(busiestService([link('a', 'b', 5), link('c', 'b', 4), link('c', 'd', 6)])).toBe('c');
});

it('tints in proportion to what failed', () => {
  expect([errorTint(0, 9), errorTint(1, 1)]).toEqual([0, 100]);
  expect(errorTint(4, 1000)).toBeLessThan(35);
  expect(errorTint(40, 100)).toBeGreaterThan(65);
});
