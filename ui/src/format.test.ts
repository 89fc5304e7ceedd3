// Tests of formatting of numbers and times.

import { describe, expect, it } from 'vitest';
import { between, count, difference, duration, extent, literal, mark, moment, parseDuration, rate, readable, round, shortDay, share, useUtc, zone } from './format';
import { logTicks, step, ticks } from './model/scale';

it('writes durations with three digits that count', () => {
  const said = (ns: number) => duration(ns);
  expect([0, 1, 999, 1000, 1234, 99_949, 999_499, 999_600, 1_230_000].map(said)).toEqual(['0 ns', '1 ns', '999 ns', '1.00 µs', '1.23 µs', '99.9 µs', '999 µs', '1.00 ms', '1.23 ms']);
  expect([12_345_678, 1e9, 59.96e9, 125e9, 3_725e9, 180_000e9].map(said)).toEqual(['12.3 ms', '1.00 s', '60.0 s', '2 min 5 s', '1 h 2 min', '2 d 2 h']);
  expect([120e9, 3_600e9, 7_200e9, 48 * 3_600e9].map(said)).toEqual(['2 min', '1 h', '2 h', '2 d']);
  expect(said(Number.NaN)).toBe('–');
  expect(difference(1500)).toBe('+1.50 µs');
  expect(difference(-1500)).toBe('−1.50 µs');
});

it('keeps all nanoseconds of a time', () => {
  expect(moment(1_764_000_000_123_456_789n)).toMatch(/:\d\d\.123456789$/);
  expect(moment(1_764_000_000_000_000_001n)).toMatch(/\.000000001$/);
});

it('writes counts, rates and shares', () => {
  expect(count(1_234_567)).toBe('1,234,567');
  expect(count(12)).toBe('12');
  expect(rate(100, 10e9)).toBe('10.0/s');
  expect(rate(1, 60e9)).toBe('1.00/min');
  expect(rate(1, 0)).toBe('–');
  expect(share(1, 3)).toBe('33%');
  expect(share(1, 100_000)).toBe('< 0.1%');
});

it('reads what people write as durations', () => {
  expect(['5ms', '1.5 s', '200', '3us', '2min'].map(parseDuration)).toEqual([5e6, 1.5e9, 200e6, 3e3, 12e10]);
  expect(['', 'x', '5 parsecs', '-1ms'].map(parseDuration)).toEqual([null, null, null, null]);
});

describe('axes', () => {
  it('tell neighbouring marks apart', () => {
    expect([100.5e6, 101e6].map((ns) => mark(ns, 5e5, 103e6))).toEqual(['100.5 ms', '101.0 ms']);
    expect([0, 200, 1000].map((ns) => mark(ns, 200, 1000))).toEqual(['0', '0.2 µs', '1.0 µs']);
    expect(mark(-50e6, 50e6, 1e9)).toBe('−0.05 s');
    expect(mark(2, 1, 20)).toBe('2 ns');
    expect([2e7, 1000].map(round)).toEqual(['20 ms', '1 µs']);
  });

  it('have steps that people read easily', () => {
    expect([3, 12, 0.7, 55e9, 100e9, 4000e9].map(step)).toEqual([5, 20, 1, 60e9, 120e9, 7200e9]);
    expect(ticks(0, 100, 5).at).toEqual([0, 20, 40, 60, 80, 100]);
    expect(logTicks(100, 1e6)).toEqual([100, 1000, 10_000, 100_000, 1_000_000]);
  });
});

it('writes long marks in minutes, hours and days', () => {
  expect([100e9, 1000e9, 60e9, 36_000e9, 100_000e9].map(round)).toEqual(['1.67 min', '16.7 min', '1 min', '10 h', '1.16 d']);
  expect([43_200e9, 86_400e9].map((ns) => mark(ns, 43_200e9, 200_000e9))).toEqual(['12 h', '24 h']);
  expect(logTicks(1e9, 200_000e9)).toEqual([1e9, 10e9, 60e9, 600e9, 3600e9, 36_000e9, 86_400e9]);
});

it('writes durations for filters to the nanosecond', () => {
  expect([0, 7, 1500, 221_929_985, 1e9, 90e9].map(literal)).toEqual(['0ns', '7ns', '1.5us', '221.929985ms', '1s', '90s']);
});

it('tells asynchronous work from the duration', () => {
  expect(extent(243e6, 2.6e9)).toBe('243 ms, async work until 2.60 s');
  expect(extent(243e6, 243e6)).toBe('243 ms');
  expect(extent(243e6, undefined)).toBe('243 ms');
});

it('says zones and years', () => {
  useUtc(true);
  expect(zone(0)).toBe('UTC');
  expect(moment(0n)).toBe('1970-01-01 00:00:00.000000000');
  expect(shortDay(1_543_549_524_000_000_000n, 1_764_000_000_000)).toBe('2018-11-30');
  expect(shortDay(1_764_000_000_000_000_000n, 1_764_000_000_000)).toBe('11-24');
  useUtc(false);
});

it('writes rates side by side in one unit', () => {
  expect([rate(187, 60e9, 187), rate(27, 60e9, 187), rate(1, 3600e9, 7200)]).toEqual(['3.12/s', '0.45/s', '< 0.01/s']);
});

it('writes two durations with the unit once', () => {
  expect([between(0, 206e6), between(1e6, 20e6), between(20e3, 1e6), between(-5e6, 20e6)]).toEqual(['0–206 ms', '1.00–20.0 ms', '20.0 µs – 1.00 ms', '−5.00 ms – 20.0 ms']);
  expect(between(120e9, 125e9)).toBe('2 min – 2 min 5 s');
});

it('shows marks that turn the direction of text', () => {
  expect(readable('evil\u202egnp.exe')).toBe('evil[U+202E]gnp.exe');
  expect(readable('a\u2066b\u2069\u0000')).toBe('a[U+2066]b[U+2069][U+0000]');
  // Text of any language stays as it is.
  expect(readable('مرحبا שלום 你好 👩‍💻\n\t')).toBe('مرحبا שלום 你好 👩‍💻\n\t');
});
