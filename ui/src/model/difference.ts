// Which attributes tell a selection from the rest, and not by chance.

import type { DifferenceAnswer } from '../api';

type Value = DifferenceAnswer['values'][number];

/** Standard errors that shares must lie apart. With thousands of attributes looked at, few pass it by chance. */
const Z_LEAST = 4;
/** Shares that lie closer together explain nothing. */
const GAP_LEAST = 0.05;

/** Values whose shares differ significantly. Of the two values of an attribute that has no others, one says all. */
export function telling(answer: DifferenceAnswer): Value[] {
  const { inside, outside } = answer;
  const gap = (value: Value) => value.inside / Math.max(1, inside) - value.outside / Math.max(1, outside);
  const shown = answer.values.filter((value) => {
    const whole = (value.inside + value.outside) / Math.max(1, inside + outside);
    const error = Math.sqrt(whole * (1 - whole) * (1 / Math.max(1, inside) + 1 / Math.max(1, outside)));
    return Math.abs(gap(value)) >= GAP_LEAST && Math.abs(gap(value)) >= Z_LEAST * error;
  });
  // The value that is more frequent in the selection stands for its opposite.
  const isOpposite = (value: Value) =>
    gap(value) < 0 &&
    shown.some((other) => other.key === value.key && other !== value && value.inside + other.inside === inside && value.outside + other.outside === outside);
  return shown.filter((value) => !isOpposite(value));
}
