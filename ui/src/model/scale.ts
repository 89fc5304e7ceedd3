// Positions of marks on axes: times in round steps, durations on a logarithmic scale.

const STEPS = [1, 2, 5];
const MINUTES = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Returns the smallest round step of at least this many nanoseconds. */
export function step(atLeastNs: number): number {
  if (atLeastNs > 30e9) {
    const found = MINUTES.find((seconds) => seconds * 1e9 >= atLeastNs);
    if (found !== undefined) return found * 1e9;
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(atLeastNs, 1e-3)));
  const found = STEPS.find((each) => each * power >= atLeastNs * 0.999999);
  return (found ?? 10) * power;
}

/** Returns about `about` marks from `least` to `greatest`. */
export function ticks(least: number, greatest: number, about: number): { step: number; at: number[] } {
  const size = step((greatest - least) / Math.max(1, about));
  const at: number[] = [];
  for (let mark = Math.ceil(least / size) * size; mark <= greatest && at.length < 1000; mark += size) at.push(mark);
  return { step: size, at };
}

/** Minutes, hours and days, which replace powers of ten above 60 s. */
const LONG = [60e9, 600e9, 3600e9, 36_000e9, 86_400e9, 864_000e9, 8_640_000e9];

/** Returns powers of ten from `least` to `greatest`, with 2 and 5 between them if there are few. */
export function logTicks(least: number, greatest: number): number[] {
  const [low, high] = [Math.log10(Math.max(least, 1)), Math.log10(Math.max(greatest, 1))];
  const between = high - low > 2.5 ? [1] : STEPS;
  const at: number[] = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
    for (const each of between) {
      const mark = each * 10 ** power;
      if (mark > LONG[0]) return [...at, ...LONG.filter((long) => long >= least * 0.999 && long <= greatest * 1.001)];
      if (mark >= least * 0.999 && mark <= greatest * 1.001) at.push(mark);
    }
  }
  return at;
}
