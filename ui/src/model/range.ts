// The time range of the pages: a last interval, all times, or an interval with fixed ends.

import { nanoseconds, zoneMinutes } from '../format';

export const SPANS: { name: string; words: string; short: string; ns: bigint | null }[] = [
  { name: '5m', words: 'the last 5 minutes', short: 'Last 5 min', ns: 300_000_000_000n },
  { name: '15m', words: 'the last 15 minutes', short: 'Last 15 min', ns: 900_000_000_000n },
  { name: '1h', words: 'the last hour', short: 'Last hour', ns: 3_600_000_000_000n },
  { name: '6h', words: 'the last 6 hours', short: 'Last 6 h', ns: 21_600_000_000_000n },
  { name: '1d', words: 'the last day', short: 'Last day', ns: 86_400_000_000_000n },
  { name: '7d', words: 'the last 7 days', short: 'Last 7 days', ns: 604_800_000_000_000n },
  { name: 'all', words: 'all stored data', short: 'All time', ns: null },
];

export const USUAL = '1h';

/** Tolerated advance of clocks. Spans that start later are outside of a range that ends now. */
const AHEAD_NS = 60_000_000_000n;

export interface Range {
  /** Name of a predefined range, or `''` if the times are given. */
  name: string;
  startNs: bigint | null;
  endNs: bigint | null;
}

/** Returns the range that an address specifies, relative to the current time. */
export function rangeOf(name: string | null, start: string | null, end: string | null, nowMs: number): Range {
  const [startNs, endNs] = [nanoseconds(start), nanoseconds(end)];
  if (startNs !== null || endNs !== null) return { name: '', startNs, endNs };
  const span = SPANS.find((each) => each.name === (name ?? USUAL)) ?? SPANS[2];
  const now = BigInt(Math.round(nowMs)) * 1_000_000n;
  return { name: span.name, startNs: span.ns === null ? null : now - span.ns, endNs: now + AHEAD_NS };
}

/** Returns how many nanoseconds of a range can have data: from the start of the first span until now, or until the last
 * span if that is not recent. NaN if the start is unknown. */
export function overlapNs(range: Pick<Range, 'startNs' | 'endNs'>, firstNs: bigint | null, lastNs: bigint | null, nowMs: number): number {
  const now = BigInt(Math.round(nowMs)) * 1_000_000n;
  const start = [range.startNs, firstNs].reduce((late, ns) => (late === null || (ns !== null && ns > late) ? ns : late));
  // If the last span is recent, data is assumed to continue until now.
  const last = lastNs !== null && lastNs < now - AHEAD_NS ? lastNs : now;
  const end = [range.endNs ?? now, last].reduce((early, ns) => (ns < early ? ns : early), now);
  return start === null ? Number.NaN : Number(end - start);
}

export function wordsOf(range: Range): string {
  return SPANS.find((each) => each.name === range.name)?.words ?? 'this time';
}

/** Formats the value of a `datetime-local` field in the shown time zone. */
export function toField(ns: bigint | null): string {
  if (ns === null) return '';
  const ms = Number(ns / 1_000_000n);
  return new Date(ms + zoneMinutes(ms) * 60_000).toISOString().slice(0, 19);
}

export function fromField(text: string): bigint | null {
  const ms = new Date(`${text}Z`).getTime();
  if (Number.isNaN(ms)) return null;
  // Takes the zone's offset at that time; wrong only within the hour of a clock change.
  const offset = zoneMinutes(ms - zoneMinutes(ms) * 60_000);
  return BigInt(ms - offset * 60_000) * 1_000_000n;
}
