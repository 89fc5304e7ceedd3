// The critical path of a request: at each moment, the span for which the request waited. A shorter span on the path
// shortens the request. Start at criticalPath().

import type { Tree } from './tree';

/** Intervals in order, each with the row for which the request waited. */
export interface Path {
  rows: Uint32Array;
  froms: Float64Array;
  tos: Float64Array;
  /** 1 for each row of the tree that is on the path. */
  isOn: Uint8Array;
  /** Intervals ordered by row, and the index of each row's first interval among them. */
  byRow: Uint32Array;
  firsts: Uint32Array;
}

interface Step {
  row: number;
  /** Children, ordered by end time, latest first. */
  children: number[];
  next: number;
  cursor: number;
  /** Start of the row or of an ancestor, whichever is later: no interval of the path in this row begins before it. */
  floor: number;
}

/** Returns the row of the root span with the longest duration; -1 if no root has a start and a duration. */
export function mainRoot(tree: Tree): number {
  let root = -1;
  for (let row = 0; row < tree.ends.length; row = tree.ends[row]) {
    const took = tree.durations[row];
    if (!Number.isNaN(tree.starts[row]) && (root < 0 || took > tree.durations[root])) {
      if (!Number.isNaN(took)) root = row;
    }
  }
  return root;
}

export function criticalPath(tree: Tree): Path {
  const pieces: [number, number, number][] = [];
  const isOn = new Uint8Array(tree.ends.length);
  const root = mainRoot(tree);
  const stack: Step[] = [];
  const enter = (row: number, until: number, floor: number) => {
    isOn[row] = 1;
    const from = Math.max(tree.starts[row], floor);
    stack.push({ row, children: byEnd(tree, row), next: 0, cursor: until, floor: from });
  };
  if (root >= 0) enter(root, endOf(tree, root), Number.NEGATIVE_INFINITY);
  // Walks backwards: the path continues in the child that ended last before the cursor.
  while (stack.length > 0) {
    const step = stack[stack.length - 1];
    const child = step.children[step.next];
    if (child === undefined) {
      if (step.cursor > step.floor) pieces.push([step.row, step.floor, step.cursor]);
      stack.pop();
      const above = stack[stack.length - 1];
      if (above !== undefined) above.cursor = Math.min(above.cursor, step.floor);
      continue;
    }
    step.next += 1;
    // A child that outlives its parent counts only until the parent's end.
    const end = Math.min(endOf(tree, child), endOf(tree, step.row));
    if (end > step.cursor || end <= Math.max(step.floor, tree.starts[child])) continue;
    if (step.cursor > end) pieces.push([step.row, end, step.cursor]);
    step.cursor = end;
    enter(child, end, step.floor);
  }
  pieces.reverse();
  const firsts = new Uint32Array(tree.ends.length + 1);
  for (const piece of pieces) firsts[piece[0] + 1] += 1;
  for (let row = 0; row < tree.ends.length; row += 1) firsts[row + 1] += firsts[row];
  return {
    byRow: Uint32Array.from(pieces.keys()).sort((a, b) => pieces[a][0] - pieces[b][0] || a - b),
    firsts,
    rows: Uint32Array.from(pieces, (piece) => piece[0]),
    froms: Float64Array.from(pieces, (piece) => piece[1]),
    tos: Float64Array.from(pieces, (piece) => piece[2]),
    isOn,
  };
}

const endOf = (tree: Tree, row: number): number => tree.starts[row] + tree.durations[row];

function byEnd(tree: Tree, row: number): number[] {
  const children: number[] = [];
  for (let child = row + 1; child < tree.ends[row]; child = tree.ends[child]) {
    if (!Number.isNaN(endOf(tree, child))) children.push(child);
  }
  const limit = endOf(tree, row);
  const key = (child: number) => Math.min(endOf(tree, child), limit);
  return children.sort((a, b) => key(b) - key(a) || tree.starts[b] - tree.starts[a]);
}
