// How durations, times and counts are written, the same on all pages. Times since 1970 are BigInt, so that no
// nanosecond is lost.

const UNITS: [number, string][] = [
  [1, 'ns'],
  [1e3, 'µs'],
  [1e6, 'ms'],
  [1e9, 's'],
];

/** `1.23 ms`: three digits that count. */
export function duration(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  const sign = ns < 0 ? '−' : '';
  const size = Math.abs(ns);
  if (size < 0.5) return '0 ns';
  if (size < 999.5) return `${sign}${Math.round(size)} ns`;
  if (size >= 100e9) return sign + long(size);
  // What rounds up to 1000 of a unit is 1.00 of the next.
  const unit = UNITS.findLast(([scale]) => size >= scale * 0.9995) ?? UNITS[0];
  return `${sign}${three(size / unit[0])} ${unit[1]}`;
}

/** A mark on an axis whose marks are so far apart: no more digits than that takes, and no fewer. */
export function mark(ns: number, stepNs: number, greatestNs: number): string {
  if (ns === 0) return '0';
  const [scale, unit] = UNITS.findLast(([each]) => Math.max(Math.abs(greatestNs), stepNs) >= each) ?? UNITS[0];
  const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / stepNs) - 1e-9)));
  return `${(ns / scale).toFixed(digits).replace('-', '−')} ${unit}`;
}

/** A duration of one digit that counts, as on logarithmic axes. */
export const round = (ns: number): string => duration(ns).replace(/\.0+ /, ' ');

function long(ns: number): string {
  const seconds = Math.round(ns / 1e9);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (parts[0] >= 48) return `${Math.floor(parts[0] / 24)} d ${parts[0] % 24} h`;
  return parts[0] > 0 ? `${parts[0]} h ${parts[1]} min` : `${parts[1]} min ${parts[2]} s`;
}

function three(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

/** `+1.23 ms` or `−1.23 ms`. */
export function difference(ns: number): string {
  return ns > 0 ? `+${duration(ns)}` : duration(ns);
}

/** `1,234,567 ns`. */
export function exactly(ns: number): string {
  return Number.isFinite(ns) ? `${count(Math.round(ns))} ns` : 'not known';
}

/** `1,234,567`. */
export function count(value: number | bigint): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `12.3/s`, `4.1/min`. */
export function rate(calls: number, windowNs: number): string {
  if (!(windowNs > 0)) return '–';
  const second = (calls * 1e9) / windowNs;
  if (second >= 1000) return `${count(Math.round(second))}/s`;
  if (second >= 1) return `${three(second)}/s`;
  if (second >= 1 / 60) return `${three(second * 60)}/min`;
  return `${three(second * 3600)}/h`;
}

/** `1.2 %`. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return '0 %';
  const percent = (part / whole) * 100;
  if (percent < 0.1) return '< 0.1 %';
  return `${percent >= 9.95 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

const two = (value: number): string => value.toString().padStart(2, '0');

/** The nanoseconds within a second, and the whole milliseconds since 1970. */
function split(ns: bigint): [number, string] {
  const billion = 1_000_000_000n;
  let rest = ns % billion;
  if (rest < 0n) rest += billion;
  return [Number((ns - rest) / 1_000_000n), rest.toString().padStart(9, '0')];
}

/** `2026-11-22`, where the reader is. */
export function day(ns: bigint): string {
  const date = new Date(split(ns)[0]);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** `14:03:05.123`, where the reader is. */
export function clock(ns: bigint, digits: 0 | 3 | 6 | 9 = 3): string {
  const [ms, fraction] = split(ns);
  const date = new Date(ms);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return digits === 0 ? time : `${time}.${fraction.slice(0, digits)}`;
}

/** `2026-11-22 14:03:05.123456789`. */
export function moment(ns: bigint): string {
  return `${day(ns)} ${clock(ns, 9)}`;
}

/** As a server writes a time: digits only, else nothing. */
export function nanoseconds(text: string | null | undefined): bigint | null {
  return text && /^\d{1,20}$/.test(text) ? BigInt(text) : null;
}

/** How a time axis with so many nanoseconds between its marks is written. */
export function tick(ns: bigint, stepNs: number): string {
  if (stepNs >= 86_400e9) return day(ns);
  if (stepNs >= 1e9) return clock(ns, 0).slice(0, stepNs >= 60e9 ? 5 : 8);
  return clock(ns, stepNs >= 1e6 ? 3 : stepNs >= 1e3 ? 6 : 9);
}

/** What people write as a duration, in nanoseconds: `5ms`, `1.5 s`, `200`. Nothing if it is none. */
export function parseDuration(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|min|h)?\s*$/.exec(text);
  if (!found) return null;
  const scales: Record<string, number> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 3.6e12 };
  return Math.round(Number(found[1]) * scales[found[2] ?? 'ms']);
}
