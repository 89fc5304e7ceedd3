// Tests of the drawings: the critical path in layers, colours of services.

import { expect, it } from 'vitest';
import type { Path } from '../model/critical';
import { pathSteps } from './lanes';
import { Colours, inkOn, themeOf } from './theme';

it('thins a path of 100,000 pieces to a few steps for each pixel', () => {
  const pieces = 100_000;
  const path = { rows: Uint32Array.from({ length: pieces }, (_, at) => at % 3), froms: Float64Array.from({ length: pieces }, (_, at) => at), tos: Float64Array.from({ length: pieces }, (_, at) => at + 1) } as Path;
  const laneOf = new Uint16Array([0, 1, 2]);
  const steps = pathSteps(path, laneOf, 0, pieces, 1000);
  expect(steps.length).toBeLessThan(4 * 1000);
  expect(Math.max(...steps.map((step) => step.right))).toBeCloseTo(1000, 3);
  // What is looked at closely is all there.
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
