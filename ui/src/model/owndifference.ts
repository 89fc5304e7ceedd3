// Says how spans inside a selection spend their own time differently from others: in one sentence, and as table rows.
// Own time is the part of a span's duration in which no child ran.

import type { DifferenceAnswer } from '../api';
import { duration } from '../format';
import { DISK_PREFIX, type Kind, OWN_KINDS, OWN_PREFIX } from './own';

type OwnTimeDifference = DifferenceAnswer['ownTime'];
type Time = OwnTimeDifference['times'][number];

/** Row of the table: a kind of own time, or a detail of the kind `disk`. */
export interface OwnRow extends Time {
  name: string;
  isDetail: boolean;
}

/** Maximum number of rows of kinds, and of rows of devices. */
const ROWS_MAX = 24;
/** Minimum share of the own time that a difference must have to be worth a sentence. */
const SHARE_LEAST = 0.05;
/** Minimum share of a difference of disk waits that one device must have to be named. */
const DEVICE_SHARE_LEAST = 0.5;

const size = (time: Time): number => Math.abs(time.differenceNs);
const isShown = (time: Time): boolean => time.insideNs > 0 || time.outsideNs > 0;
const kindsOf = (own: OwnTimeDifference): Time[] => own.times.filter((time) => time.key.startsWith(OWN_PREFIX));
const kindOf = (time: Time): string => time.key.slice(OWN_PREFIX.length);
const kindNamed = (key: string): Kind | undefined => OWN_KINDS.find((kind) => kind.key === key);

/** Returns device and step of a key: `vda` and `queued`. The device's name may contain dots. */
function deviceOf(key: string): [string, string] {
  const rest = key.slice(DISK_PREFIX.length);
  const dot = rest.lastIndexOf('.');
  return dot < 0 ? [rest, ''] : [rest.slice(0, dot), rest.slice(dot + 1)];
}

function deviceName(key: string): string {
  const [device, step] = deviceOf(key);
  return `${device}: requests ${step}`;
}

/** Returns the rows, the largest difference first. Rows of devices follow the kind `disk`. */
export function ownRows(own: OwnTimeDifference): OwnRow[] {
  const kinds = kindsOf(own).filter(isShown).slice(0, ROWS_MAX);
  const details = own.times
    .filter((time) => time.key.startsWith(DISK_PREFIX) && isShown(time))
    .slice(0, ROWS_MAX)
    .map((time) => ({ ...time, name: deviceName(time.key), isDetail: true }));
  const at = kinds.findIndex((time) => kindOf(time) === 'disk');
  const rows = kinds.map((time) => ({ ...time, name: kindNamed(kindOf(time))?.words ?? kindOf(time), isDetail: false }));
  return rows.toSpliced(at < 0 ? rows.length : at + 1, 0, ...details);
}

/** Returns the own time of all kinds together. */
export function ownTotal(own: OwnTimeDifference): { insideNs: number; outsideNs: number; differenceNs: number } {
  const kinds = kindsOf(own);
  const insideNs = kinds.reduce((sum, time) => sum + time.insideNs, 0);
  const outsideNs = kinds.reduce((sum, time) => sum + time.outsideNs, 0);
  return { insideNs, outsideNs, differenceNs: insideNs - outsideNs };
}

/** Returns the device whose requests explain at least half of a difference of disk waits; null if none does. */
function deviceBehind(own: OwnTimeDifference, disk: Time): string | null {
  const sums = new Map<string, number>();
  for (const time of own.times.filter(({ key }) => key.startsWith(DISK_PREFIX))) {
    const [device] = deviceOf(time.key);
    sums.set(device, (sums.get(device) ?? 0) + time.differenceNs * Math.sign(disk.differenceNs));
  }
  const [most] = [...sums].sort((a, b) => b[1] - a[1]);
  return most !== undefined && most[1] >= size(disk) * DEVICE_SHARE_LEAST ? most[0] : null;
}

function predicate(own: OwnTimeDifference, time: Time): string {
  const [ns, more] = [duration(size(time)), time.differenceNs > 0 ? 'more' : 'less'];
  const kind = kindOf(time);
  const known = kindNamed(kind);
  const device = kind === 'disk' ? deviceBehind(own, time) : null;
  const object = device === null ? (known?.object ?? `for ${kind}`) : `for the disk ${device}`;
  return `${known?.verb ?? 'wait'} ${ns} ${more} ${object}`.trimEnd();
}

/** Says the largest difference, as in “The slow ones wait 4.00 ms more for the disk vda”; null if all are small. */
export function ownSentence(own: OwnTimeDifference): string | null {
  const total = ownTotal(own);
  const largest = kindsOf(own).toSorted((a, b) => size(b) - size(a))[0];
  if (largest === undefined || largest.differenceNs === 0 || size(largest) < Math.max(total.insideNs, total.outsideNs) * SHARE_LEAST) return null;
  return `${total.differenceNs > 0 ? 'The slow ones' : 'The selected ones'} ${predicate(own, largest)}.`;
}

const some = (known: number, unknown: number): string => (unknown === 0 ? 'all' : `${known} of ${known + unknown}`);

/** Says of which spans the own time is known; empty if it is known of all. */
export function ownCoverage(own: OwnTimeDifference): string {
  if (own.unknownInside === 0 && own.unknownOutside === 0) return '';
  return `Own time is known of ${some(own.inside, own.unknownInside)} selected spans and ${some(own.outside, own.unknownOutside)} others.`;
}
