// Detects and corrects clock skew between services. A span of another service cannot start before its caller, and a
// synchronous call cannot end after its caller has the answer. Start at skewOf() and corrected().

import { CLIENT, CONSUMER, PRODUCER, SERVER } from './outline';
import type { Clock, Columns } from './outline';
import type { Tree } from './tree';

/** Senders round times to microseconds, so a difference of one microsecond is not skew. */
const TOLERANCE_NS = 1000;

export interface Skew {
  /** 1 for each row that violates these rules. */
  marks: Uint8Array;
  skewed: number;
  /** The largest of the minimal corrections of all rows. */
  skewNs: number;
}

/** Returns the time within which the clocks of all machines agree; NaN for one machine, and if a clock was not measured. */
export function agreementOf(clocks: Map<number, Clock>): number {
  const errors = new Map<string, number>();
  for (const { node, error } of clocks.values()) {
    if (node === '') return Number.NaN;
    errors.set(node, Math.max(error, errors.get(node) ?? 0));
  }
  const [first, second] = [...errors.values()].sort((one, other) => other - one);
  return second === undefined ? Number.NaN : first + second;
}

/** Returns the clock of each row's machine: a row that tells none is of its parent's. Parents must come before children. */
function clocksByRow({ parents, clocks }: Columns): (Clock | undefined)[] {
  const known: (Clock | undefined)[] = [];
  for (let row = 0; row < parents.length; row += 1) known.push(clocks.get(row) ?? known[parents[row]]);
  return known;
}

/** Returns by how many nanoseconds a row must move to fit into its parent of another service; 0 if it fits. */
function offBy(columns: Columns, row: number, parentMoves: number, moves: number, clocks: (Clock | undefined)[]): number {
  const { parents, starts, durations, services, kinds } = columns;
  const parent = parents[row];
  if (parent < 0 || services[row] === services[parent]) return 0;
  const [from, begin] = [starts[parent] + parentMoves, starts[row] + moves];
  if (Number.isNaN(from - begin)) return 0;
  const rest = durations[parent] - durations[row];
  // Messages are consumed at any later time, and other spans may outlive their caller unless it waits for them.
  const isCall = (kinds[parent] === CLIENT || kinds[row] === SERVER) && kinds[row] !== CONSUMER && kinds[parent] !== PRODUCER;
  const [own, other] = [clocks[row], clocks[parent]];
  const tolerance = TOLERANCE_NS + (own?.node === other?.node ? 0 : (own?.error || 0) + (other?.error || 0));
  const isEarly = begin < from - tolerance;
  const isLate = kinds[parent] === CLIENT && isCall && rest >= 0 && begin - from > rest + tolerance;
  if (!isEarly && !isLate) return 0;
  // Moves the span to the middle of its caller: equal delays in both directions are assumed.
  return isCall && rest >= 0 ? from + rest / 2 - begin : from - begin;
}

export function skewOf(columns: Columns): Skew {
  const marks = new Uint8Array(columns.parents.length);
  const clocks = clocksByRow(columns);
  let [skewed, skewNs] = [0, 0];
  for (let row = 0; row < marks.length; row += 1) {
    if (offBy(columns, row, 0, 0, clocks) === 0) continue;
    const parent = columns.parents[row];
    marks[row] = 1;
    skewed += 1;
    const early = columns.starts[parent] - columns.starts[row];
    const late = columns.starts[row] + columns.durations[row] - columns.starts[parent] - columns.durations[parent];
    skewNs = Math.max(skewNs, early > 0 ? early : late);
  }
  return { marks, skewed, skewNs };
}

/** Shifts the clocks of services so that calls lie within their callers. Parents must come before children. */
export function corrected(tree: Tree): Columns {
  const rows = tree.parents.length;
  const moves = new Float64Array(rows);
  const measured = clocksByRow(tree);
  // Each service has one offset; a row that this offset does not fit gets its own.
  const clocks = new Map<number, number>();
  for (let row = 0; row < rows; row += 1) {
    const parent = tree.parents[row];
    const service = tree.services[row];
    if (parent >= 0 && tree.services[parent] === service) moves[row] = moves[parent];
    else {
      const known = clocks.get(service) ?? 0;
      moves[row] = known + (parent < 0 ? 0 : offBy(tree, row, moves[parent], known, measured));
    }
    if (!clocks.has(service)) clocks.set(service, moves[row]);
  }
  const starts = tree.starts.map((start, row) => start + moves[row]);
  const times = tree.notes.times.map((time, note) => time + moves[tree.notes.rows[note]]);
  let end = 0;
  for (let row = 0; row < rows; row += 1) end = Math.max(end, starts[row] + (tree.durations[row] || 0) || 0);
  // Times are relative to the earliest start after correction.
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
