// Computes the layout of the map: callers left of the services that they call, with few crossings. Cycles are allowed:
// edges that close a cycle are drawn as back edges. Start at layout().

export interface Edge {
  from: string;
  to: string;
}

export interface Box {
  name: string;
  column: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Placed<E extends Edge> {
  edge: E;
  /** Points of a cubic Bézier curve: start, two control points, end. */
  curve: [number, number][];
  isBack: boolean;
  /** Position of the edge's label. */
  labelX: number;
  labelY: number;
}

export interface Layout<E extends Edge> {
  boxes: Map<string, Box>;
  edges: Placed<E>[];
  width: number;
  height: number;
}

export const SIZE = { width: 168, height: 56, gapX: 140, gapY: 48, margin: 20 };

export function layout<E extends Edge>(edges: E[]): Layout<E> {
  const names = [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))].sort();
  const back = backEdges(names, edges);
  const forward = edges.filter((edge) => edge.from !== edge.to && !back.has(edge));
  const columns = columnsOf(names, forward);
  const grid: string[][] = [];
  for (const name of names) {
    const column = columns.get(name) ?? 0;
    grid[column] ??= [];
    grid[column].push(name);
  }
  untangle(grid, forward);
  const boxes = new Map<string, Box>();
  const tallest = Math.max(0, ...grid.map((column) => column.length));
  const { width, height, gapX, gapY, margin } = SIZE;
  for (const [column, members] of grid.entries()) {
    const shift = ((tallest - members.length) * (height + gapY)) / 2;
    for (const [row, name] of members.entries()) {
      const x = margin + column * (width + gapX);
      const y = margin + shift + row * (height + gapY);
      boxes.set(name, { name, column, x, y, width, height });
    }
  }
  const bottom = margin * 2 + tallest * (height + gapY) - gapY;
  const placed = edges.map((edge) => place(edge, boxes, bottom));
  spread(placed, [...boxes.values()]);
  const lows = placed.flatMap((each) => each.curve.map((point) => point[1]));
  return {
    boxes,
    edges: placed,
    width: margin * 2 + grid.length * (width + gapX) - gapX,
    height: Math.max(bottom, ...lows.map((low) => low + margin)),
  };
}

/** Returns edges whose removal makes the graph acyclic. */
function backEdges<E extends Edge>(names: string[], edges: E[]): Set<E> {
  const out = new Map<string, E[]>();
  const called = new Map<string, number>();
  for (const edge of edges) {
    if (edge.from === edge.to) continue;
    const known = out.get(edge.from);
    if (known === undefined) out.set(edge.from, [edge]);
    else known.push(edge);
    called.set(edge.to, (called.get(edge.to) ?? 0) + 1);
  }
  const back = new Set<E>();
  // 1: on the current path of the depth-first search, 2: done.
  const state = new Map<string, number>();
  const first = [...names].sort((a, b) => (called.get(a) ?? 0) - (called.get(b) ?? 0));
  for (const start of first) {
    if (state.has(start)) continue;
    state.set(start, 1);
    const stack: [string, number][] = [[start, 0]];
    while (stack.length > 0) {
      const top = stack[stack.length - 1];
      const edge = out.get(top[0])?.[top[1]];
      top[1] += 1;
      if (edge === undefined) {
        state.set(top[0], 2);
        stack.pop();
      } else if (state.get(edge.to) === 1) {
        back.add(edge);
      } else if (!state.has(edge.to)) {
        state.set(edge.to, 1);
        stack.push([edge.to, 0]);
      }
    }
  }
  return back;
}

/** Places each service one column right of its rightmost caller. */
function columnsOf(names: string[], edges: Edge[]): Map<string, number> {
  const columns = new Map<string, number>(names.map((name) => [name, 0]));
  const waits = new Map<string, number>();
  for (const edge of edges) waits.set(edge.to, (waits.get(edge.to) ?? 0) + 1);
  const ready = names.filter((name) => !waits.has(name));
  for (let name = ready.pop(); name !== undefined; name = ready.pop()) {
    for (const edge of edges) {
      if (edge.from !== name) continue;
      columns.set(edge.to, Math.max(columns.get(edge.to) ?? 0, (columns.get(name) ?? 0) + 1));
      const left = (waits.get(edge.to) ?? 1) - 1;
      waits.set(edge.to, left);
      if (left === 0) ready.push(edge.to);
    }
  }
  return columns;
}

/** Reduces crossings: moves each service near the mean position of its neighbours, in six alternating passes. */
function untangle(grid: string[][], edges: Edge[]): void {
  const near = new Map<string, string[]>();
  for (const edge of edges) {
    near.set(edge.from, [...(near.get(edge.from) ?? []), edge.to]);
    near.set(edge.to, [...(near.get(edge.to) ?? []), edge.from]);
  }
  const places = new Map<string, number>();
  const note = (column: string[]) => {
    for (const [row, name] of column.entries()) places.set(name, row - (column.length - 1) / 2);
  };
  grid.forEach(note);
  for (let round = 0; round < 6; round += 1) {
    const order = round % 2 === 0 ? grid : [...grid].reverse();
    for (const column of order) {
      const wish = new Map<string, number>();
      for (const name of column) {
        const around = near.get(name) ?? [];
        const sum = around.reduce((total, other) => total + (places.get(other) ?? 0), 0);
        wish.set(name, around.length === 0 ? (places.get(name) ?? 0) : sum / around.length);
      }
      column.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || (a < b ? -1 : 1));
      note(column);
    }
  }
}

/** Size of an edge's label; the label extends upwards from its position. */
export const LABEL = { width: 92, height: 30 };
/** With more edges than this, labels are not moved apart. */
const SPREAD_MAX = 300;
/** Candidate positions of a label along its curve. The first is near the called service, where fewer curves overlap. */
const ALONG = [0.62, 0.5, 0.74, 0.4, 0.84, 0.3, 0.2];

type Room = Pick<Box, 'x' | 'y' | 'width' | 'height'>;

const roomOf = ([x, y]: [number, number]): Room => ({ x: x - LABEL.width / 2, y: y - LABEL.height, ...LABEL });

function overlap(a: Room, b: Room): number {
  const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const high = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  return wide > 0 && high > 0 ? wide * high : 0;
}

/** Moves labels along their curves to where they overlap labels and boxes least. */
function spread<E extends Edge>(placed: Placed<E>[], boxes: Box[]): void {
  if (placed.length > SPREAD_MAX) return;
  const taken: Room[] = [...boxes];
  for (const each of placed) {
    const places = each.isBack ? [[each.labelX, each.labelY] as [number, number]] : ALONG.map((at) => along(each.curve, at));
    const costs = places.map((at) => taken.reduce((sum, room) => sum + overlap(roomOf(at), room), 0));
    const best = costs.indexOf(Math.min(...costs));
    [each.labelX, each.labelY] = places[best];
    taken.push(roomOf(places[best]));
  }
}

/** Returns a point of a Bézier curve. */
function along(curve: [number, number][], at: number): [number, number] {
  const rest = 1 - at;
  const axis = (which: 0 | 1) => {
    const [a, b, c, d] = curve.map((point) => point[which]);
    return rest ** 3 * a + 3 * rest ** 2 * at * b + 3 * rest * at ** 2 * c + at ** 3 * d;
  };
  return [axis(0), axis(1)];
}

function place<E extends Edge>(edge: E, boxes: Map<string, Box>, bottom: number): Placed<E> {
  const [from, to] = [boxes.get(edge.from) as Box, boxes.get(edge.to) as Box];
  const middle = (box: Box) => box.y + box.height / 2;
  if (from === to) {
    const [x, y] = [from.x + from.width / 2, from.y + from.height];
    const curve: [number, number][] = [[x + 26, y], [x + 40, y + 26], [x - 40, y + 26], [x - 26, y]];
    return { edge, curve, isBack: true, labelX: x, labelY: y + 27 };
  }
  const isBack = from.column >= to.column;
  if (isBack) {
    const low = Math.min(Math.max(from.y, to.y) + SIZE.height + SIZE.gapY + 18, bottom + 24);
    const [startX, endX] = [from.x + from.width * 0.35, to.x + to.width * 0.65];
    const curve: [number, number][] = [[startX, from.y + from.height], [startX, low], [endX, low], [endX, to.y + to.height]];
    return { edge, curve, isBack, labelX: (startX + endX) / 2, labelY: low - 10 };
  }
  const [x1, y1] = [from.x + from.width, middle(from)];
  const [x2, y2] = [to.x, middle(to)];
  const bend = Math.min((x2 - x1) / 2, SIZE.gapX * 0.6);
  const curve: [number, number][] = [[x1, y1], [x1 + bend, y1], [x2 - bend, y2], [x2, y2]];
  const [labelX, labelY] = along(curve, ALONG[0]);
  return { edge, curve, isBack, labelX, labelY };
}
