// Arranges a request's spans as a tree: rows in depth-first order, with depths, self times, roots and origins of
// failures. Start at arrange().

import { type Columns, LOST_PARENT, NO_PARENT } from './outline';
import { agreementOf, skewOf } from './skew';

/** Columns in depth-first order: the descendants of a row directly follow it. */
export interface Tree extends Columns {
  depths: Uint32Array;
  /** Index after the last descendant of each row. */
  ends: Uint32Array;
  /** Part of a row's duration that no child covers; NaN if unknown. */
  selfs: Float64Array;
  /** Index of each row's first annotation; one more element ends the last row. */
  firstNotes: Uint32Array;
  /** Extent of all spans, in nanoseconds since the start. `least` may be negative. */
  least: number;
  greatest: number;
  /** The earliest row without a parent, else the earliest row; -1 if there are no rows. */
  root: number;
  /** Duration of the root, or the extent if that is unknown. */
  rootNs: number;
  /** 1 for each failed row without failed children: the failure began there. */
  origins: Uint8Array;
  /** Rows that show clock skew, their count, and the largest skew. */
  skewMarks: Uint8Array;
  skewed: number;
  skewNs: number;
  /** Time in nanoseconds within which the clocks of the machines agree; NaN if that is unknown, or for one machine. */
  agreementNs: number;
}

export function arrange(columns: Columns): Tree {
  const broken = withoutCircles(columns);
  const order = walk(broken);
  const sorted = order === null ? broken : permute(broken, order);
  const rows = sorted.parents.length;
  const depths = new Uint32Array(rows);
  const ends = new Uint32Array(rows);
  let least = 0;
  let greatest = sorted.durationNs;
  for (let row = 0; row < rows; row += 1) {
    const parent = sorted.parents[row];
    depths[row] = parent >= 0 ? depths[parent] + 1 : 0;
    const start = sorted.starts[row];
    if (start < least) least = start;
    const end = start + (sorted.durations[row] || 0);
    if (end > greatest) greatest = end;
  }
  for (let row = rows - 1; row >= 0; row -= 1) {
    if (ends[row] < row + 1) ends[row] = row + 1;
    const parent = sorted.parents[row];
    if (parent >= 0 && ends[parent] < ends[row]) ends[parent] = ends[row];
  }
  const root = rootOf(sorted);
  const skew = skewOf(sorted);
  const tree: Tree = {
    ...sorted,
    root,
    rootNs: root >= 0 && !Number.isNaN(sorted.starts[root] + sorted.durations[root]) ? sorted.durations[root] : sorted.durationNs,
    origins: originsOf(sorted),
    skewMarks: skew.marks,
    skewed: skew.skewed,
    skewNs: skew.skewNs,
    agreementNs: agreementOf(sorted.clocks),
    notes: sortNotes(sorted.notes),
    depths,
    ends,
    selfs: new Float64Array(rows),
    firstNotes: new Uint32Array(rows + 1),
    least,
    greatest: Math.max(greatest, least + 1),
  };
  for (let row = 0; row < rows; row += 1) {
    let own = Number.isNaN(tree.starts[row]) ? tree.durations[row] : 0;
    eachOwn(tree, row, (from, to) => {
      own += to - from;
    });
    tree.selfs[row] = Number.isNaN(tree.durations[row]) ? Number.NaN : own;
  }
  const counts = tree.firstNotes;
  for (const row of tree.notes.rows) counts[row + 1] += 1;
  for (let row = 0; row < rows; row += 1) counts[row + 1] += counts[row];
  return tree;
}

function rootOf({ parents, starts }: Columns): number {
  let root = -1;
  const place = (row: number): [number, number] => [parents[row] === NO_PARENT ? 0 : 1, Number.isNaN(starts[row]) ? Number.POSITIVE_INFINITY : starts[row]];
  for (let row = 0; row < parents.length; row += 1) {
    if (root < 0) root = row;
    const [one, other] = [place(row), place(root)];
    if (one[0] < other[0] || (one[0] === other[0] && one[1] < other[1])) root = row;
  }
  return root;
}

function originsOf({ parents, errors }: Columns): Uint8Array {
  const origins = errors.slice();
  for (let row = 0; row < parents.length; row += 1) if (errors[row] && parents[row] >= 0) origins[parents[row]] = 0;
  return origins;
}

/** Calls `take` for each interval of a row that no child covers, in order. */
export function eachOwn(tree: Tree, row: number, take: (from: number, to: number) => void): void {
  const start = tree.starts[row];
  const end = start + tree.durations[row];
  if (Number.isNaN(end)) return;
  let cursor = start;
  for (let child = row + 1; child < tree.ends[row]; child = tree.ends[child]) {
    const from = tree.starts[child];
    const to = from + tree.durations[child];
    if (Number.isNaN(to) || to <= cursor) continue;
    if (from >= end) continue;
    if (from > cursor) take(cursor, from);
    cursor = to;
    if (cursor >= end) return;
  }
  if (cursor < end) take(cursor, end);
}

/** Returns the visible rows, without the descendants of collapsed rows. */
export function unfolded(tree: Pick<Tree, 'ends'>, folded: Uint8Array): Uint32Array {
  const rows = tree.ends.length;
  const seen = new Uint32Array(rows);
  let count = 0;
  for (let row = 0; row < rows; row = folded[row] ? tree.ends[row] : row + 1) {
    seen[count] = row;
    count += 1;
  }
  return seen.slice(0, count);
}

/** Collapses exactly the rows that have children and are at this depth or deeper. */
export function foldBelow(tree: Tree, depth: number): Uint8Array {
  return Uint8Array.from(tree.depths, (own, row) => (own >= depth && tree.ends[row] > row + 1 ? 1 : 0));
}

/** Expands all ancestors of a row. Returns true if one of them was collapsed. */
export function reveal(tree: Tree, folded: Uint8Array, row: number): boolean {
  let changed = false;
  for (let at = tree.parents[row]; at >= 0; at = tree.parents[at]) {
    changed ||= folded[at] !== 0;
    folded[at] = 0;
  }
  return changed;
}

/** Returns the position of a row among the visible rows, or -1. */
export function placeOf(seen: Uint32Array, row: number): number {
  let [low, high] = [0, seen.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seen[middle] < row) low = middle + 1;
    else high = middle;
  }
  return seen[low] === row ? low : -1;
}

/** Breaks cycles: the row that closes one loses its parent. */
function withoutCircles(columns: Columns): Columns {
  const { parents } = columns;
  // 0: not visited, 1: on the current path to the root, 2: reaches a root.
  const state = new Uint8Array(parents.length);
  let mended: Int32Array | null = null;
  for (let row = 0; row < parents.length; row += 1) {
    let at = row;
    while (at >= 0 && state[at] === 0) {
      state[at] = 1;
      const parent = (mended ?? parents)[at];
      if (parent >= 0 && state[parent] === 1) {
        mended ??= parents.slice();
        mended[at] = LOST_PARENT;
      }
      at = (mended ?? parents)[at];
    }
    for (at = row; at >= 0 && state[at] === 1; at = (mended ?? parents)[at]) state[at] = 2;
  }
  return mended === null ? columns : { ...columns, parents: mended };
}

/** Returns the depth-first order with children by start, or null if the rows have that order already. */
function walk(columns: Columns): Uint32Array | null {
  const { parents, starts } = columns;
  const rows = parents.length;
  if (isWalk(columns)) return null;
  const when = (row: number) => (Number.isNaN(starts[row]) ? Number.POSITIVE_INFINITY : starts[row]);
  const byStart = Uint32Array.from(parents.keys()).sort((a, b) => {
    const [one, other] = [when(a), when(b)];
    return one < other ? -1 : one > other ? 1 : a - b;
  });
  // Linked lists of children, each ordered by start.
  const first = new Int32Array(rows).fill(-1);
  const next = new Int32Array(rows).fill(-1);
  let roots = -1;
  for (let at = rows - 1; at >= 0; at -= 1) {
    const row = byStart[at];
    const parent = parents[row];
    if (parent >= 0) {
      next[row] = first[parent];
      first[parent] = row;
    } else {
      next[row] = roots;
      roots = row;
    }
  }
  const order = new Uint32Array(rows);
  const stack: number[] = [];
  let count = 0;
  for (let row = roots; row >= 0; ) {
    order[count] = row;
    count += 1;
    if (next[row] >= 0) stack.push(next[row]);
    row = first[row] >= 0 ? first[row] : (stack.pop() ?? -1);
  }
  return order;
}

function isWalk({ parents, starts }: Columns): boolean {
  const path: number[] = [];
  const last: number[] = [];
  for (let row = 0; row < parents.length; row += 1) {
    const parent = parents[row];
    while (path.length > 0 && path[path.length - 1] !== parent) path.pop();
    if (parent >= 0 && path.length === 0) return false;
    const depth = path.length;
    // Siblings must be ordered by start, because self times depend on it.
    last.length = Math.min(last.length, depth + 1);
    if (starts[row] < (last[depth] ?? Number.NEGATIVE_INFINITY)) return false;
    if (!Number.isNaN(starts[row])) last[depth] = starts[row];
    path.push(row);
  }
  return true;
}

function permute(columns: Columns, order: Uint32Array): Columns {
  const places = new Uint32Array(order.length);
  for (const [place, row] of order.entries()) places[row] = place;
  const move = <T extends Uint8Array | Int32Array | Uint32Array | Float64Array>(column: T): T => {
    const moved = column.slice() as T;
    for (let place = 0; place < order.length; place += 1) moved[place] = column[order[place]];
    return moved;
  };
  const parents = move(columns.parents);
  for (let row = 0; row < parents.length; row += 1) {
    if (parents[row] >= 0) parents[row] = places[parents[row]];
  }
  return {
    ...columns,
    parents,
    idsHigh: move(columns.idsHigh),
    idsLow: move(columns.idsLow),
    starts: move(columns.starts),
    durations: move(columns.durations),
    services: move(columns.services),
    names: move(columns.names),
    kinds: move(columns.kinds),
    errors: move(columns.errors),
    owns: move(columns.owns),
    clocks: new Map([...columns.clocks].map(([row, clock]) => [places[row], clock])),
    notes: { ...columns.notes, rows: columns.notes.rows.map((row) => places[row]) },
  };
}

function sortNotes(notes: Columns['notes']): Columns['notes'] {
  const order = Uint32Array.from(notes.rows.keys()).sort(
    (a, b) => notes.rows[a] - notes.rows[b] || notes.times[a] - notes.times[b] || a - b,
  );
  return {
    rows: Uint32Array.from(order, (at) => notes.rows[at]),
    times: Float64Array.from(order, (at) => notes.times[at]),
    values: Int32Array.from(order, (at) => notes.values[at]),
    more: notes.more,
  };
}
