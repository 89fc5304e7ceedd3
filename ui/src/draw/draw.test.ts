// Tests of the drawings: the critical path across layers, colours of services.

import { expect, it } from 'vitest';
import type { Path } from '../model/critical';
import { pathSteps } from './lanes';
import { barAt, durationAt, histogramOf } from './heatmap';
import { OWN_KINDS } from '../model/own';
import { PATTERNS } from './own';
import { Colours, contrast, inkOn, themeOf } from './theme';
import { LABEL_ROOM, timeWidth } from './waterfall';

it('thins a path of 100,000 pieces to a few steps for each pixel', () => {
  const pieces = 100_000;
  const path = { rows: Uint32Array.from({ length: pieces }, (_, at) => at % 3), froms: Float64Array.from({ length: pieces }, (_, at) => at), tos: Float64Array.from({ length: pieces }, (_, at) => at + 1) } as Path;
  const laneOf = new Uint16Array([0, 1, 2]);
  const steps = pathSteps(path, laneOf, 0, pieces, 1000);
  expect(steps.length).toBeLessThan(4 * 1000);
  expect(Math.max(...steps.map((step) => step.right))).toBeCloseTo(1000, 3);
  // A zoomed view keeps every step.
  expect(pathSteps(path, laneOf, 50, 60, 1000).filter((step) => step.left >= 0 && step.right <= 1000).length).toBe(10);
});

it('gives a service the same colour in all traces, and no two the same while there are others', () => {
  const theme = themeOf(false);
  const alone = new Colours(['orders']);
  for (const others of [['mailer'], ['web', 'kafka'], ['card']]) {
    const colours = new Colours([...others, 'orders']);
    const isTaken = others.some((name) => new Colours([name]).colour(name, theme) === alone.colour('orders', theme));
    expect(isTaken || colours.colour('orders', theme) === alone.colour('orders', theme), others.join()).toBe(true);
    // The order of appearance does not matter.
    expect(new Colours(['orders', ...others]).colour('orders', theme)).toBe(colours.colour('orders', theme));
  }
  const names = Array.from({ length: 16 }, (_, at) => `service-${at}`);
  const colours = new Colours(names);
  expect(new Set(names.map((name) => colours.colour(name, theme) + colours.isHatched(name))).size).toBe(16);
});

it('writes on colours in the ink that is read better', () => {
  expect([inkOn('#9ad0f2'), inkOn('#0072b2'), inkOn('#ffffff'), inkOn('#000000')]).toEqual(['#000000', '#ffffff', '#000000', '#ffffff']);
});

it('has enough contrast on drawings, which no tool looks into', () => {
  for (const theme of [themeOf(false), themeOf(true)]) {
    for (const text of [theme.text, theme.muted, theme.error, theme.accent]) expect(contrast(text, theme.background), text).toBeGreaterThan(4.5);
    for (const colour of theme.colours) {
      expect(contrast(colour, theme.background), colour).toBeGreaterThan(3);
      expect(contrast(colour, inkOn(colour)), colour).toBeGreaterThan(4.5);
    }
    // The path is drawn on a border of the background colour.
    expect(contrast(theme.path, theme.background)).toBeGreaterThan(7);
    // A cell of one span is visible.
    expect(contrast(theme.ramp[0], theme.background), theme.ramp[0]).toBeGreaterThan(1.6);
  }
});

/** Linear red, green and blue of a colour such as `#0072b2`, from 0 to 1. */
const linear = (colour: string): number[] => [1, 3, 5].map((at) => (Number.parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);

/** How the three forms of colour-vision deficiency mix linear red, green and blue (Machado et al. 2009, severity 1). */
const DEFICIENCIES = [
  [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
  [[0.367, 0.861, -0.228], [0.28, 0.673, 0.047], [-0.012, 0.043, 0.969]],
  [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
];

/** Distance of two colours as seen with a deficiency, in CIE L*a*b*. */
function distance(one: string, other: string, mix: number[][]): number {
  const lab = (colour: string) => {
    const rgb = linear(colour);
    const [r, g, b] = mix.map((row) => row.reduce((sum, part, at) => sum + part * rgb[at], 0));
    const f = (value: number) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
    const [x, y, z] = [f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505), f(0.2126 * r + 0.7152 * g + 0.0722 * b), f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089)];
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
  };
  const [a, b] = [lab(one), lab(other)];
  return Math.hypot(...a.map((value, at) => value - b[at]));
}

it('gives each kind of own time a colour and a pattern that tell it from all others', () => {
  for (const theme of [themeOf(false), themeOf(true)]) {
    expect([theme.own.length, PATTERNS.length]).toEqual([OWN_KINDS.length, OWN_KINDS.length]);
    for (const colour of theme.own) {
      expect(contrast(colour, theme.background), colour).toBeGreaterThan(3);
      expect(contrast(colour, inkOn(colour)), colour).toBeGreaterThan(4.5);
    }
    for (let a = 0; a < OWN_KINDS.length; a += 1) {
      for (let b = 0; b < a; b += 1) {
        if (PATTERNS[a] !== PATTERNS[b]) continue;
        // Kinds with the same pattern differ in colour, for everybody.
        for (const mix of DEFICIENCIES) expect(distance(theme.own[a], theme.own[b], mix), `${OWN_KINDS[a].key} ${OWN_KINDS[b].key}`).toBeGreaterThan(12);
      }
    }
  }
});

it('finds the bar and the duration at a place of the histogram', () => {
  const bars = [{ leastNs: 1000, greatestNs: 1063, spans: 3 }, { leastNs: 1_000_000, greatestNs: 1_062_999, spans: 9 }];
  const histogram = histogramOf(bars, 600, 210);
  if (histogram === null) throw new Error('there are bars');
  expect(histogram.most).toBe(9);
  expect(barAt(histogram, histogram.area.x + 12)?.spans).toBe(3);
  expect(barAt(histogram, histogram.area.x + histogram.area.width / 2)).toBe(null);
  expect(barAt(histogram, histogram.area.x + histogram.area.width - 12)?.spans).toBe(9);
  expect(barAt(histogram, 2)).toBe(null);
  expect(durationAt(histogram, -50)).toBeCloseTo(histogram.least);
  expect(histogramOf([], 600, 210)).toBe(null);
});

it('leaves room for durations behind the time that is shown', () => {
  expect(timeWidth(800)).toBe(800 - LABEL_ROOM);
  expect(timeWidth(30)).toBeGreaterThan(0);
});
