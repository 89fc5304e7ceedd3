// Which time the pages look at: the last so many minutes, all, or from then to then.

import { nanoseconds } from '../format';

export const SPANS: { name: string; words: string; short: string; ns: bigint | null }[] = [
  { name: '15m', words: 'the last 15 minutes', short: 'Last 15 min', ns: 900_000_000_000n },
  { name: '1h', words: 'the last hour', short: 'Last hour', ns: 3_600_000_000_000n },
  { name: '6h', words: 'the last 6 hours', short: 'Last 6 h', ns: 21_600_000_000_000n },
  { name: '1d', words: 'the last day', short: 'Last day', ns: 86_400_000_000_000n },
  { name: 'all', words: 'all that is kept', short: 'All times', ns: null },
];

export const USUAL = '1h';

export interface Range {
  /** One of the names, or `''` if the times are given. */
  name: string;
  startNs: bigint | null;
  endNs: bigint | null;
}

/** The range that an address gives, seen from now. */
export function rangeOf(name: string | null, start: string | null, end: string | null, nowMs: number): Range {
  const [startNs, endNs] = [nanoseconds(start), nanoseconds(end)];
  if (startNs !== null || endNs !== null) return { name: '', startNs, endNs };
  const span = SPANS.find((each) => each.name === (name ?? USUAL)) ?? SPANS[1];
  if (span.ns === null) return { name: 'all', startNs: null, endNs: null };
  return { name: span.name, startNs: BigInt(Math.round(nowMs)) * 1_000_000n - span.ns, endNs: null };
}

export function wordsOf(range: Range): string {
  return SPANS.find((each) => each.name === range.name)?.words ?? 'this time';
}

/** What a `datetime-local` field holds, where the reader is. */
export function toField(ns: bigint | null): string {
  if (ns === null) return '';
  const date = new Date(Number(ns / 1_000_000n));
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

export function fromField(text: string): bigint | null {
  const ms = new Date(text).getTime();
  return Number.isNaN(ms) ? null : BigInt(ms) * 1_000_000n;
}
