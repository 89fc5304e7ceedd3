// Formats durations, times and counts alike on all pages. Times since 1970 are BigInt, so that no nanosecond is lost.

const UNITS: [number, string][] = [
  [1, 'ns'],
  [1e3, 'µs'],
  [1e6, 'ms'],
  [1e9, 's'],
];
/** Units of axes whose marks are at least a minute apart. */
const LONG_UNITS: [number, string][] = [...UNITS, [60e9, 'min'], [3600e9, 'h'], [86_400e9, 'd']];

/** Formats a duration with three significant digits: `1.23 ms`; from 100 s on in two units: `2 min 5 s`. */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  const sign = ns < 0 ? '−' : '';
  const size = Math.abs(ns);
  if (size < 0.5) return '0 ns';
  if (size < 999.5) return `${sign}${Math.round(size)} ns`;
  if (size >= 100e9) return sign + long(size);
  // A value that rounds up to 1000 of a unit is written as 1.00 of the next unit.
  const unit = UNITS.findLast(([scale]) => size >= scale * 0.9995) ?? UNITS[0];
  return `${sign}${three(size / unit[0])} ${unit[1]}`;
}

/** Formats a mark of an axis with as many decimals as the distance between marks needs. */
export function mark(ns: number, stepNs: number, greatestNs: number): string {
  if (ns === 0) return '0';
  const units = stepNs >= 60e9 ? LONG_UNITS : UNITS;
  const [scale, unit] = units.findLast(([each]) => (stepNs >= 60e9 ? stepNs % each === 0 : Math.max(Math.abs(greatestNs), stepNs) >= each)) ?? UNITS[0];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / stepNs) - 1e-9)));
  return `${(ns / scale).toFixed(digits).replace('-', '−')} ${unit}`;
}

/** Formats a duration without trailing zeros, as logarithmic axes need it. */
export function round(ns: number): string {
  if (ns < 60e9) return duration(ns).replace(/\.0+ /, ' ');
  const [scale, unit] = LONG_UNITS.findLast(([each]) => ns >= each * 0.9995) ?? UNITS[0];
  return `${three(ns / scale).replace(/\.0+$/, '')} ${unit}`;
}

/** Formats a duration as a literal of the filter language, exact to the nanosecond: `1.5ms`. */
export function literal(ns: number): string {
  const [scale, unit] = UNITS.findLast(([each]) => ns >= each) ?? UNITS[0];
  const text = (ns / scale).toFixed(Math.round(Math.log10(scale))).replace(/\.?0+$/, '');
  return `${scale === 1 ? ns : text}${unit.replace('µ', 'u')}`;
}

/** Formats a trace's duration, and its extent where that is longer: `243 ms, async work until 2.60 s`. */
export function extent(durationNs: number, extentNs: number | undefined): string {
  return extentNs !== undefined && isAsync(durationNs, extentNs) ? `${duration(durationNs)}, async work until ${duration(extentNs)}` : duration(durationNs);
}

/** Whether spans end noticeably later than the root. */
export const isAsync = (durationNs: number, extentNs: number): boolean => extentNs > durationNs * 1.02 + 1000;

function long(ns: number): string {
  const seconds = Math.round(ns / 1e9);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  // A second unit of zero is omitted.
  const both = (first: string, rest: number, unit: string) => (rest === 0 ? first : `${first} ${rest} ${unit}`);
  if (parts[0] >= 48) return both(`${Math.floor(parts[0] / 24)} d`, parts[0] % 24, 'h');
  return parts[0] > 0 ? both(`${parts[0]} h`, parts[1], 'min') : both(`${parts[1]} min`, parts[2], 's');
}

/** Formats a range of durations, with the unit once where both have the same: `0–206 ms`, `20.0 µs – 1.00 ms`. */
export function between(fromNs: number, toNs: number): string {
  const [from, to] = [duration(fromNs), duration(toNs)];
  const [words, unit] = [from.split(' '), to.split(' ').slice(1).join(' ')];
  if (fromNs === 0 && toNs > 0) return `0–${to}`;
  return words.length === 2 && words[1] === unit && fromNs >= 0 ? `${words[0]}–${to}` : `${from} – ${to}`;
}

/** Control characters and characters that are invisible or change the direction of text. They could make a name look
 * like another name. */
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Escapes control and invisible characters for display, as `[U+202E]`. */
export function readable(text: string): string {
  return text.replace(UNSEEN, (sign) => `[U+${sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`);
}

function three(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

/** Formats a signed difference: `+1.23 ms` or `−1.23 ms`. */
export function difference(ns: number): string {
  return ns > 0 ? `+${duration(ns)}` : duration(ns);
}

/** Formats a duration in whole nanoseconds: `1,234,567 ns`. */
export function exactly(ns: number): string {
  return Number.isFinite(ns) ? `${count(Math.round(ns))} ns` : 'not known';
}

/** Formats a count with separators: `1,234,567`. */
export function count(value: number | bigint): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Formats a rate: `12.3/s`, `4.1/min`. The rate of `ofCalls` selects the unit, so that values side by side share it.
 */
export function rate(calls: number, windowNs: number, ofCalls = calls): string {
  if (!(windowNs > 0)) return '–';
  const [second, of] = [(calls * 1e9) / windowNs, (ofCalls * 1e9) / windowNs];
  const [scale, unit] = of >= 1 ? [1, 's'] : of >= 1 / 60 ? [60, 'min'] : [3600, 'h'];
  const value = second * scale;
  return `${value >= 1000 ? count(Math.round(value)) : value > 0 && value < 0.01 ? '< 0.01' : three(value)}/${unit}`;
}

/** Formats a share as a percentage: `1.2%`. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return '0%';
  const percent = (part / whole) * 100;
  if (percent < 0.1) return '< 0.1%';
  return `${percent >= 9.95 ? percent.toFixed(0) : percent.toFixed(1)}%`;
}

const two = (value: number): string => value.toString().padStart(2, '0');

/** Splits a time into the start of its second, in milliseconds since 1970, and the nine digits of nanoseconds within
 * the second. */
function split(ns: bigint): [number, string] {
  const billion = 1_000_000_000n;
  let rest = ns % billion;
  if (rest < 0n) rest += billion;
  return [Number((ns - rest) / 1_000_000n), rest.toString().padStart(9, '0')];
}

let isUtc = false;

/** Selects UTC or the browser's time zone for all formatted times. */
export function useUtc(value: boolean): void {
  isUtc = value;
}

/** Returns how many minutes the shown time zone is ahead of UTC. */
export const zoneMinutes = (ms: number): number => (isUtc ? 0 : -new Date(ms).getTimezoneOffset());

/** Returns a date whose UTC fields are the fields in the shown time zone. */
const inZone = (ms: number): Date => new Date(ms + zoneMinutes(ms) * 60_000);

/** Formats the time zone: `UTC`, `UTC+5:30`. */
export function zone(ms: number): string {
  const minutes = zoneMinutes(ms);
  if (minutes === 0) return 'UTC';
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? '−' : '+'}${hours}${rest === 0 ? '' : `:${two(rest)}`}`;
}

/** Formats the date: `2026-11-22`. */
export function day(ns: bigint): string {
  const date = inZone(split(ns)[0]);
  return `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
}

/** Formats the date as `11-22`, with the year where it is not the current one. */
export function shortDay(ns: bigint, nowMs: number): string {
  const text = day(ns);
  return inZone(nowMs).getUTCFullYear().toString() === text.slice(0, -6) ? text.slice(-5) : text;
}

/** Formats the time of day: `14:03:05.123`. */
export function clock(ns: bigint, digits: 0 | 3 | 6 | 9 = 3): string {
  const [ms, fraction] = split(ns);
  const date = inZone(ms);
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  return digits === 0 ? time : `${time}.${fraction.slice(0, digits)}`;
}

/** Formats date and time with nanoseconds: `2026-11-22 14:03:05.123456789`. */
export function moment(ns: bigint): string {
  return `${day(ns)} ${clock(ns, 9)}`;
}

/** Parses a time as the server sends it, in decimal digits; null for other text. */
export function nanoseconds(text: string | null | undefined): bigint | null {
  return text && /^\d{1,20}$/.test(text) ? BigInt(text) : null;
}

/** Formats a mark of a time axis, given the nanoseconds between marks. */
export function tick(ns: bigint, stepNs: number): string {
  if (stepNs >= 86_400e9) return day(ns);
  if (stepNs >= 1e9) return clock(ns, 0).slice(0, stepNs >= 60e9 ? 5 : 8);
  return clock(ns, stepNs >= 1e6 ? 3 : stepNs >= 1e3 ? 6 : 9);
}

/** Parses a duration such as `5ms`, `1.5 s` or `200` (milliseconds) into nanoseconds; null for other text. */
export function parseDuration(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|min|h)?\s*$/.exec(text);
  if (!found) return null;
  const scales: Record<string, number> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 3.6e12 };
  return Math.round(Number(found[1]) * scales[found[2] ?? 'ms']);
}
