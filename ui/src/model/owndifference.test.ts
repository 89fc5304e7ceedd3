// Tests of what a comparison says of own times.

import { expect, it } from 'vitest';
import { ownCoverage, ownRows, ownSentence, ownTotal } from './owndifference';

/** Builds an answer from the means in ms, inside and outside, in the server's order. */
const answer = (means: Record<string, [number, number]>) => ({
  inside: 20,
  outside: 200,
  unknownInside: 0,
  unknownOutside: 0,
  leftOut: 0,
  times: Object.entries(means)
    .map(([key, [inside, outside]]) => ({ key: `blkkin.${key}`, insideNs: inside * 1e6, outsideNs: outside * 1e6, differenceNs: (inside - outside) * 1e6 }))
    .sort((a, b) => Math.abs(b.differenceNs) - Math.abs(a.differenceNs)),
});

const says = (means: Record<string, [number, number]>, expected: string | null) => expect(ownSentence(answer(means))).toBe(expected);

it('says the largest difference in a sentence', () => {
  says({ 'own.disk': [5, 1], 'own.running': [1, 0.9], 'disk.vda.served': [3.5, 0.5], 'disk.vda.queued': [0.9, 0.4] }, 'The slow ones wait 4.00 ms more for the disk vda.');
  says({ 'own.lock': [9, 1] }, 'The slow ones wait 8.00 ms more for a lock.');
  says({ 'own.running': [9, 1] }, 'The slow ones run 8.00 ms more on a processor.');
  says({ 'own.runnable': [9, 1] }, 'The slow ones wait 8.00 ms more for a processor.');
  says({ 'own.elsewhere': [9, 1] }, 'The slow ones spend 8.00 ms more while no thread works for them.');
  says({ 'own.futex': [9, 1] }, 'The slow ones wait 8.00 ms more for futex.');
});

it('names a device only if it explains the difference', () => {
  says({ 'own.disk': [9, 1], 'disk.vda.served': [3, 0], 'disk.vdb.served': [3.5, 0] }, 'The slow ones wait 8.00 ms more for disks.');
  says({ 'own.disk': [9, 1], 'disk.vda.served': [0, 30], 'disk.a.b.served': [4, 0] }, 'The slow ones wait 8.00 ms more for the disk a.b.');
  says({ 'own.disk': [9, 1] }, 'The slow ones wait 8.00 ms more for disks.');
});

it('does not call spans slow that take less time', () => {
  says({ 'own.disk': [1, 5], 'disk.vda.served': [0, 4] }, 'The selected ones wait 4.00 ms less for the disk vda.');
  says({ 'own.sleep': [1, 5], 'own.lock': [5, 4] }, 'The selected ones sleep 4.00 ms less.');
  // Less of one kind may be the largest difference of spans that are slower on the whole.
  says({ 'own.disk': [1, 5], 'own.lock': [4, 1], 'own.network': [3, 1] }, 'The slow ones wait 4.00 ms less for disks.');
});

it('says nothing of small differences', () => {
  says({}, null);
  says({ 'own.disk': [3, 3] }, null);
  says({ 'own.running': [100, 99], 'own.disk': [3, 0] }, null);
  says({ 'disk.vda.served': [9, 1] }, null);
});

it('lists the kinds, and devices after the kind disk', () => {
  const own = answer({ 'own.lock': [9, 1], 'own.disk': [5, 1], 'own.running': [1, 2], 'own.poll': [0, 0], 'disk.vda.served': [3, 1], 'disk.vda.queued': [0, 0] });
  expect(ownRows(own).map(({ name, isDetail }) => [name, isDetail])).toEqual([
    ['Waiting for a lock', false],
    ['Waiting for a disk', false],
    ['vda: requests served', true],
    ['Running on a processor', false],
  ]);
  expect(ownRows(answer({ 'own.lock': [9, 1], 'disk.vda.queued': [1, 0] })).map(({ name }) => name)).toEqual(['Waiting for a lock', 'vda: requests queued']);
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, at): [string, [number, number]] => [`disk.vd${at}.served`, [at + 1, 0]]));
  expect(ownRows(answer(many))).toHaveLength(24);
});

it('sums up the kinds without the devices', () => {
  expect(ownTotal(answer({ 'own.lock': [9, 1], 'own.disk': [5, 1], 'disk.vda.served': [3, 1] }))).toEqual({ insideNs: 14e6, outsideNs: 2e6, differenceNs: 12e6 });
});

it('says of which spans the own time is known', () => {
  const own = answer({ 'own.lock': [9, 1] });
  expect(ownCoverage(own)).toBe('');
  expect(ownCoverage({ ...own, unknownOutside: 50 })).toBe('Own time is known of all selected spans and 200 of 250 others.');
  expect(ownCoverage({ ...own, unknownInside: 4, unknownOutside: 50 })).toBe('Own time is known of 20 of 24 selected spans and 200 of 250 others.');
  expect(ownCoverage({ ...own, inside: 0, unknownInside: 4 })).toBe('Own time is known of 0 of 4 selected spans and all others.');
});
