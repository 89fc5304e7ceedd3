// Clocks of services that differ: which spans show it, and times as they would be if the clocks agreed. A span of another
// service cannot start before its caller, and a call cannot end after the caller has its answer. Start at skewOf() and
// corrected().

import { CLIENT, CONSUMER, PRODUCER, SERVER } from './outline';
import type { Columns } from './outline';
import type { Tree } from './tree';

/** Senders round times to microseconds, so a difference of one microsecond is not skew. */
const TOLERANCE_NS = 1000;

export interface Skew {
  /** Rows that show it. */
  marks: Uint8Array;
  skewed: number;
  /** The largest of the smallest corrections that the rows need. */
  skewNs: number;
}

/** By how much a row must move to fit into its parent in another service; 0 if it fits. */
function offBy({ parents, starts, durations, services, kinds }: Columns, row: number, parentMoves: number, moves: number): number {
  const parent = parents[row];
  if (parent < 0 || services[row] === services[parent]) return 0;
  const [from, begin] = [starts[parent] + parentMoves, starts[row] + moves];
  if (Number.isNaN(from - begin)) return 0;
  const rest = durations[parent] - durations[row];
  // Messages are consumed at any time later; other spans may go on behind their caller unless it waits for them.
  const isCall = (kinds[parent] === CLIENT || kinds[row] === SERVER) && kinds[row] !== CONSUMER && kinds[parent] !== PRODUCER;
  const isEarly = begin < from - TOLERANCE_NS;
  const isLate = kinds[parent] === CLIENT && isCall && rest >= 0 && begin - from > rest + TOLERANCE_NS;
  if (!isEarly && !isLate) return 0;
  // In the middle of its caller, as if the ways there and back took as long.
  return isCall && rest >= 0 ? from + rest / 2 - begin : from - begin;
}

export function skewOf(columns: Columns): Skew {
  const marks = new Uint8Array(columns.parents.length);
  let [skewed, skewNs] = [0, 0];
  for (let row = 0; row < marks.length; row += 1) {
    if (offBy(columns, row, 0, 0) === 0) continue;
    const parent = columns.parents[row];
    marks[row] = 1;
    skewed += 1;
    const early = columns.starts[parent] - columns.starts[row];
    const late = columns.starts[row] + columns.durations[row] - columns.starts[parent] - columns.durations[parent];
    skewNs = Math.max(skewNs, early > 0 ? early : late);
  }
  return { marks, skewed, skewNs };
}

/** The same spans with the clocks of services moved so that calls lie within their callers. Parents come before children. */
export function corrected(tree: Tree): Columns {
  const rows = tree.parents.length;
  const moves = new Float64Array(rows);
  // A service has one clock; only where that does not fit it has another.
  const clocks = new Map<number, number>();
  for (let row = 0; row < rows; row += 1) {
    const parent = tree.parents[row];
    const service = tree.services[row];
    if (parent >= 0 && tree.services[parent] === service) moves[row] = moves[parent];
    else {
      const known = clocks.get(service) ?? 0;
      moves[row] = known + (parent < 0 ? 0 : offBy(tree, row, moves[parent], known));
    }
    if (!clocks.has(service)) clocks.set(service, moves[row]);
  }
  const starts = tree.starts.map((start, row) => start + moves[row]);
  const times = tree.notes.times.map((time, note) => time + moves[tree.notes.rows[note]]);
  let end = 0;
  for (let row = 0; row < rows; row += 1) end = Math.max(end, starts[row] + (tree.durations[row] || 0) || 0);
  // Times count from the first span that is left in its place or moved.
  const least = starts.reduce((first, start) => (start < first ? start : first), Number.POSITIVE_INFINITY);
  const shift = Number.isFinite(least) ? least : 0;
  return {
    ...tree,
    startNs: tree.startNs + BigInt(Math.round(shift)),
    durationNs: Math.max(0, end - shift),
    starts: starts.map((start) => start - shift),
    notes: { ...tree.notes, times: times.map((time) => time - shift) },
  };
}
