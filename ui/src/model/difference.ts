// Selects the attribute values whose share in a selection differs significantly from the rest.

import type { DifferenceAnswer } from '../api';

type Value = DifferenceAnswer['values'][number];

/** Minimum distance of two shares in standard errors. With thousands of attributes tested, few pass by chance. */
const Z_LEAST = 4;
/** Minimum difference of two shares; a smaller one explains nothing. */
const GAP_LEAST = 0.05;

/** Returns the values whose shares differ significantly. Of an attribute with only two values, one is listed. */
export function telling(answer: Pick<DifferenceAnswer, 'inside' | 'outside' | 'values'>): Value[] {
  const { inside, outside } = answer;
  const gap = (value: Value) => value.inside / Math.max(1, inside) - value.outside / Math.max(1, outside);
  const shown = answer.values.filter((value) => {
    const whole = (value.inside + value.outside) / Math.max(1, inside + outside);
    const error = Math.sqrt(whole * (1 - whole) * (1 / Math.max(1, inside) + 1 / Math.max(1, outside)));
    return Math.abs(gap(value)) >= GAP_LEAST && Math.abs(gap(value)) >= Z_LEAST * error;
  });
  // The value that is more frequent in the selection is listed, and its opposite is not.
  const isOpposite = (value: Value) =>
    gap(value) < 0 &&
    shown.some((other) => other.key === value.key && other !== value && value.inside + other.inside === inside && value.outside + other.outside === outside);
  return shown.filter((value) => !isOpposite(value));
}
