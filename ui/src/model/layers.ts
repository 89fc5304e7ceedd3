// A request across layers and nodes: a lane for each service in the order of first use, the calls between lanes, and
// the time spent inside each service and between each two. Start at layersOf().

import { CLIENT, CONSUMER, SERVER } from './outline';
import { hasOwn, OWN_KINDS, sumsOf } from './own';
import { eachOwn, type Tree } from './tree';

/** Maximum number of rows in a lane for pieces that overlap. */
export const DEPTH_MAX = 6;

export interface Lane {
  service: string;
  spans: number;
  errors: number;
  /** Sum of the spans' self times without the waits for other services. */
  insideNs: number;
  /** Time during which at least one span of the lane was active. */
  busyNs: number;
  /** Rows of the lane that its pieces need. */
  depth: number;
  /** Sums of the spans' own times by kind, and the number of spans that have them. */
  own: Float64Array;
  ownSpans: number;
}

export interface Pair {
  from: string;
  to: string;
  calls: number;
  errors: number;
  /** Number of calls for which the time between caller and callee is known: the caller only waits, and no other call of
   * it took longer. */
  known: number;
  /** Sum of the callers' durations minus the callees' durations. Negative where callees outlived their callers. */
  betweenNs: number;
  greatestNs: number;
}

/** Intervals of self time, each with its row of the tree, ordered by start. */
export interface Pieces {
  rows: Uint32Array;
  lanes: Uint16Array;
  depths: Uint8Array;
  froms: Float64Array;
  tos: Float64Array;
  /** 1 if the interval is a wait for another service. */
  isWait: Uint8Array;
}

export interface Layers {
  /** Number of services. Those beyond LANES_MAX share the last lane. */
  services: number;
  lanes: Lane[];
  pairs: Pair[];
  pieces: Pieces;
  /** Rows of the tree whose parent belongs to another service, ordered by start. */
  calls: Uint32Array;
  /** The lane of each row of the tree. */
  laneOf: Uint16Array;
}

/** Maximum number of lanes with a service of their own; all others share one more lane. */
const LANES_MAX = 200;
export const OTHERS = '(other services)';

export function layersOf(tree: Tree): Layers {
  const rows = tree.ends.length;
  const { laneOf, services, count } = lanesOf(tree);
  const lanes: Lane[] = services.map((service) => ({
    service,
    spans: 0,
    errors: 0,
    insideNs: 0,
    busyNs: 0,
    depth: 1,
    own: new Float64Array(OWN_KINDS.length),
    ownSpans: 0,
  }));
  const pairs = new Map<number, Pair>();
  const calls: number[] = [];
  // Duration of each row's longest call to another lane.
  const called = new Float64Array(rows).fill(Number.NaN);
  for (let row = 0; row < rows; row += 1) {
    const lane = lanes[laneOf[row]];
    lane.spans += 1;
    lane.errors += tree.errors[row];
    if (hasOwn(tree, row)) lane.ownSpans += 1;
    for (const [kind, ns] of sumsOf(tree, row).entries()) lane.own[kind] += ns;
    const parent = tree.parents[row];
    if (parent < 0 || laneOf[parent] === laneOf[row]) continue;
    calls.push(row);
    const took = tree.durations[row];
    if (!(called[parent] >= took)) called[parent] = Number.isNaN(took) ? 0 : took;
    const pair = pairOf(pairs, lanes, laneOf[parent], laneOf[row]);
    pair.calls += 1;
    pair.errors += tree.errors[row];
  }
  for (const row of calls) {
    const parent = tree.parents[row];
    // A caller of several parallel calls waits for the longest one; its time counts for that one alone.
    if (!isCaller(tree, parent, row) || tree.durations[row] !== called[parent]) continue;
    const between = tree.durations[parent] - tree.durations[row];
    if (Number.isNaN(between)) continue;
    called[parent] = Number.POSITIVE_INFINITY;
    const pair = pairOf(pairs, lanes, laneOf[parent], laneOf[row]);
    pair.known += 1;
    pair.betweenNs += between;
    pair.greatestNs = pair.known === 1 ? between : Math.max(pair.greatestNs, between);
  }
  const pieces = piecesOf(tree, laneOf, called);
  for (let at = 0; at < pieces.rows.length; at += 1) {
    const lane = lanes[pieces.lanes[at]];
    if (!pieces.isWait[at]) lane.insideNs += pieces.tos[at] - pieces.froms[at];
    lane.depth = Math.max(lane.depth, pieces.depths[at] + 1);
  }
  busy(tree, laneOf, lanes);
  calls.sort((a, b) => tree.starts[a] - tree.starts[b]);
  return { services: count, lanes, pairs: [...pairs.values()], pieces, calls: Uint32Array.from(calls), laneOf };
}

/** Whether a row only waits for its child. The sender of a message does not wait for its consumer. */
function isCaller(tree: Tree, parent: number, row: number): boolean {
  const [above, below] = [tree.kinds[parent], tree.kinds[row]];
  return (above === CLIENT && below !== CONSUMER) || (below === SERVER && above === 0 && isOnly(tree, parent));
}

const isOnly = (tree: Tree, parent: number): boolean => tree.ends[parent + 1] === tree.ends[parent];

function lanesOf(tree: Tree): { laneOf: Uint16Array; services: string[]; count: number } {
  const first = new Map<number, number>();
  for (let row = 0; row < tree.ends.length; row += 1) {
    const service = tree.services[row];
    const start = Number.isNaN(tree.starts[row]) ? Number.POSITIVE_INFINITY : tree.starts[row];
    const known = first.get(service);
    if (known === undefined || start < known) first.set(service, start);
  }
  // Sorting is stable: services that start at the same time keep the order of the walk.
  const order = [...first].sort((a, b) => (a[1] === b[1] ? 0 : a[1] < b[1] ? -1 : 1)).map(([service]) => service);
  const places = new Map(order.map((service, place) => [service, Math.min(place, LANES_MAX)]));
  const services = order.slice(0, LANES_MAX).map((service) => (service < 0 ? '' : tree.strings[service]));
  if (order.length > LANES_MAX) services.push(OTHERS);
  return { laneOf: Uint16Array.from(tree.services, (service) => places.get(service) ?? 0), services, count: order.length };
}

function pairOf(pairs: Map<number, Pair>, lanes: Lane[], from: number, to: number): Pair {
  const key = from * (LANES_MAX + 1) + to;
  let pair = pairs.get(key);
  if (pair === undefined) {
    pair = {
      from: lanes[from].service,
      to: lanes[to].service,
      calls: 0,
      errors: 0,
      known: 0,
      betweenNs: 0,
      greatestNs: 0,
    };
    pairs.set(key, pair);
  }
  return pair;
}

function piecesOf(tree: Tree, laneOf: Uint16Array, called: Float64Array): Pieces {
  const rows: number[] = [];
  const froms: number[] = [];
  const tos: number[] = [];
  for (let row = 0; row < tree.ends.length; row += 1) {
    eachOwn(tree, row, (from, to) => {
      rows.push(row);
      froms.push(from);
      tos.push(to);
    });
  }
  const order = Uint32Array.from(rows.keys()).sort((a, b) => froms[a] - froms[b] || rows[a] - rows[b]);
  const pieces: Pieces = {
    rows: Uint32Array.from(order, (at) => rows[at]),
    lanes: Uint16Array.from(order, (at) => laneOf[rows[at]]),
    depths: new Uint8Array(order.length),
    froms: Float64Array.from(order, (at) => froms[at]),
    tos: Float64Array.from(order, (at) => tos[at]),
    isWait: Uint8Array.from(order, (at) => (called[rows[at]] === Number.POSITIVE_INFINITY ? 1 : 0)),
  };
  // Each piece gets the first free row of its lane.
  const free: Float64Array[] = [];
  for (let at = 0; at < order.length; at += 1) {
    const lane = pieces.lanes[at];
    free[lane] ??= new Float64Array(DEPTH_MAX).fill(Number.NEGATIVE_INFINITY);
    const found = free[lane].findIndex((until) => until <= pieces.froms[at]);
    const depth = found < 0 ? DEPTH_MAX - 1 : found;
    pieces.depths[at] = depth;
    free[lane][depth] = Math.max(free[lane][depth], pieces.tos[at]);
  }
  return pieces;
}

function busy(tree: Tree, laneOf: Uint16Array, lanes: Lane[]): void {
  const order = Uint32Array.from(tree.starts.keys()).sort((a, b) => tree.starts[a] - tree.starts[b]);
  const until = new Float64Array(lanes.length).fill(Number.NEGATIVE_INFINITY);
  for (const row of order) {
    const start = tree.starts[row];
    const end = start + tree.durations[row];
    const lane = laneOf[row];
    if (Number.isNaN(end) || end <= until[lane]) continue;
    lanes[lane].busyNs += end - Math.max(start, until[lane]);
    until[lane] = end;
  }
}

/** Joins two requests' lists by name, in the order of the first list, then the items that only the second list has. */
export function beside<T>(a: T[], b: T[], name: (item: T) => string): { name: string; a?: T; b?: T }[] {
  const both = new Map<string, { name: string; a?: T; b?: T }>();
  for (const item of a) both.set(name(item), { name: name(item), a: item });
  for (const item of b) {
    const known = both.get(name(item));
    if (known !== undefined) known.b = item;
    else both.set(name(item), { name: name(item), b: item });
  }
  return [...both.values()];
}
