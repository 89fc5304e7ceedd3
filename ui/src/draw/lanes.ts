// Draws a request across layers: a lane for each service, self time as bars in the lane, and calls as lines between
// lanes. Independent of the DOM around the canvas.

import { duration, readable } from '../format';
import type { Path } from '../model/critical';
import type { Layers } from '../model/layers';
import type { Tree } from '../model/tree';
import { ruler } from './axes';
import { crisp, errorMark, hatch, line, prepare } from './canvas';
import { type Colours, inkOn, type Theme } from './theme';

export const HEAD = 26;
const BAR = 15;
const GAP = 13;
/** With more calls than this, those shorter than 1/200 of the shown time are not drawn. */
const LINES_MAX = 4000;

export interface LanesView {
  tree: Tree;
  layers: Layers;
  from: number;
  to: number;
  chosen: number;
  path: Path | null;
  colours: Colours;
}

export interface LanePlace {
  y: number;
  height: number;
}

export function lanePlaces(layers: Layers): { places: LanePlace[]; height: number } {
  let y = HEAD + 8;
  const places = layers.lanes.map((lane) => {
    const height = lane.depth * BAR + (lane.depth - 1) * 2 + GAP * 2;
    const place = { y, height };
    y += height;
    return place;
  });
  return { places, height: y + 8 };
}

const barY = (place: LanePlace, depth: number): number => place.y + GAP + depth * (BAR + 2);

export function drawLanes(canvas: HTMLCanvasElement, width: number, height: number, view: LanesView, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 10) return;
  const { tree, layers, from, to } = view;
  const { places } = lanePlaces(layers);
  const scale = width / (to - from);
  const xOf = (ns: number) => Math.min(width + 8, Math.max(-8, (ns - from) * scale));
  for (const [lane, place] of places.entries()) {
    if (lane % 2 === 0) continue;
    context.fillStyle = theme.panel;
    context.fillRect(0, place.y, width, place.height);
  }
  ruler(context, { x: 0, y: 0, width, height }, HEAD, from, to, theme);
  for (const place of places) {
    context.strokeStyle = theme.line;
    line(context, 0, crisp(place.y + place.height - 1), width, crisp(place.y + place.height - 1));
  }
  calls(context, view, places, xOf, theme);
  pieces(context, view, places, xOf, width, theme);
  if (view.path !== null) path(context, view, view.path, places, width, theme);
  context.strokeStyle = theme.line;
  line(context, 0, HEAD - 0.5, width, HEAD - 0.5);
  if (tree.ends.length === 0) context.fillText('no spans', 8, HEAD + 16);
}

function calls(context: CanvasRenderingContext2D, view: LanesView, places: LanePlace[], xOf: (ns: number) => number, theme: Theme): void {
  const { tree, layers, from, to } = view;
  const centre = (lane: number) => places[lane].y + GAP + BAR / 2;
  // Lines between the same two lanes at the same pixel are drawn once.
  const drawn = new Set<number>();
  const isSeen = (row: number) => tree.starts[row] <= to && tree.starts[row] + (tree.durations[row] || 0) >= from;
  const isMany = layers.calls.reduce((sum, row) => sum + (isSeen(row) ? 1 : 0), 0) > LINES_MAX;
  let shown = 0;
  for (const isError of [false, true]) {
    const before = shown;
    context.beginPath();
    for (const row of layers.calls) {
      const [start, took] = [tree.starts[row], tree.durations[row] || 0];
      if ((tree.errors[row] !== 0) !== isError || Number.isNaN(start) || start > to || start + took < from) continue;
      if (isMany && took * 200 < to - from) continue;
      shown += 1;
      const [a, b] = [layers.laneOf[tree.parents[row]], layers.laneOf[row]];
      for (const x of [xOf(start), xOf(start + took)]) {
        const key = ((Math.round(x) * 256 + a) * 256 + b) * 2 + Number(isError);
        if (x < 0 || x > 8000 || drawn.has(key)) continue;
        drawn.add(key);
        context.moveTo(crisp(x), centre(a));
        context.lineTo(crisp(x), centre(b));
      }
    }
    context.strokeStyle = isError ? theme.error : theme.muted;
    // Many lines are drawn fainter, so that they do not hide the bars.
    context.globalAlpha = isError ? 0.9 : shown - before > 150 ? 0.22 : 0.55;
    context.lineWidth = 1;
    context.setLineDash(isError ? [4, 2] : []);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function pieces(context: CanvasRenderingContext2D, view: LanesView, places: LanePlace[], xOf: (ns: number) => number, width: number, theme: Theme): void {
  const { tree, layers, from, to } = view;
  const { rows, lanes, depths, froms, tos, isWait } = layers.pieces;
  // End of the last bar in each row of each lane, in pixels. A bar that ends before it is skipped.
  const drawn = new Map<number, number>();
  const marks: [number, number][] = [];
  // A span that waited several times has several pieces, but only one failure mark.
  const marked = new Set<number>();
  for (let at = 0; at < rows.length; at += 1) {
    if (tos[at] < from) continue;
    if (froms[at] > to) break;
    const lane = lanes[at];
    const key = lane * 8 + depths[at];
    const left = xOf(froms[at]);
    const right = Math.max(xOf(tos[at]), left + 1);
    const row = rows[at];
    if (right <= (drawn.get(key) ?? Number.NEGATIVE_INFINITY) && tree.errors[row] === 0 && row !== view.chosen) continue;
    drawn.set(key, right);
    const y = barY(places[lane], depths[at]);
    const service = layers.lanes[lane].service;
    context.fillStyle = view.colours.colour(service, theme);
    if (isWait[at]) {
      // The span only waits for another service: a thin bar.
      context.globalAlpha = 0.55;
      context.fillRect(left, y + BAR / 2 - 1.5, right - left, 3);
      context.globalAlpha = 1;
    } else {
      context.fillRect(left, y, right - left, BAR);
      if (view.colours.isHatched(service)) hatch(context, { x: left, y, width: right - left, height: BAR }, theme.background);
    }
    if (row === view.chosen) {
      context.strokeStyle = theme.text;
      context.lineWidth = 2;
      context.strokeRect(left - 1, y - 1, right - left + 2, BAR + 2);
      context.lineWidth = 1;
    }
    if (tree.errors[row] && marks.length < 2000 && !marked.has(row)) {
      marked.add(row);
      marks.push([left + Math.min(7, (right - left) / 2), y]);
    }
    if (right - left > 60 && !isWait[at]) words(context, tree, row, left, Math.min(right, width), y, tos[at] - froms[at], view.colours.colour(service, theme));
  }
  context.fillStyle = theme.error;
  for (const [x, y] of marks) errorMark(context, x, y - 5, 4.5);
}

function words(context: CanvasRenderingContext2D, tree: Tree, row: number, left: number, right: number, y: number, ns: number, ground: string): void {
  const name = tree.names[row] < 0 ? '' : tree.strings[tree.names[row]];
  const from = Math.max(left, 0) + 4;
  const room = right - from - 4;
  const text = readable(name.slice(0, 60));
  const full = `${text}  ${duration(ns)}`;
  context.fillStyle = inkOn(ground);
  if (context.measureText(full).width <= room) context.fillText(full, from, y + BAR / 2 + 0.5);
  else if (context.measureText(text).width <= room) context.fillText(text, from, y + BAR / 2 + 0.5);
}

/** With more steps than this the connecting lines are omitted, because they would cover the bars. */
const STEPS_MAX = 400;

/** A piece of the critical path as drawn: its lane and its horizontal extent in pixels. */
export interface PathStep {
  lane: number;
  left: number;
  right: number;
}

/** Returns the visible part of the path. Pieces of a lane that touch or share a pixel are merged into one step. */
export function pathSteps(path: Path, laneOf: Uint16Array, from: number, to: number, width: number): PathStep[] {
  const scale = width / (to - from);
  const xOf = (ns: number) => Math.min(width + 8, Math.max(-8, (ns - from) * scale));
  const steps: PathStep[] = [];
  // The last step of each lane.
  const last: (PathStep | undefined)[] = [];
  for (let at = 0; at < path.rows.length; at += 1) {
    if (path.tos[at] < from) continue;
    if (path.froms[at] > to) break;
    const lane = laneOf[path.rows[at]];
    const [left, right] = [xOf(path.froms[at]), xOf(path.tos[at])];
    const before = last[lane];
    const isSame = before !== undefined && (before === steps[steps.length - 1] ? left - before.right < 1 : right - before.left < 1);
    if (isSame) before.right = Math.max(before.right, right);
    else {
      last[lane] = { lane, left, right };
      steps.push(last[lane] as PathStep);
    }
  }
  return steps;
}

function path(context: CanvasRenderingContext2D, view: LanesView, path: Path, places: LanePlace[], width: number, theme: Theme): void {
  const steps = pathSteps(path, view.layers.laneOf, view.from, view.to, width);
  const isJoined = steps.length <= STEPS_MAX;
  const trace = () => {
    context.beginPath();
    for (const [at, { lane, left, right }] of steps.entries()) {
      const y = places[lane].y + GAP - 5;
      if (at === 0 || !isJoined) context.moveTo(left, y);
      else context.lineTo(left, y);
      context.lineTo(Math.max(right, left + 1), y);
    }
    context.stroke();
  };
  context.lineJoin = 'round';
  // The line has a border, so that it stands out from bars of any colour.
  context.strokeStyle = theme.background;
  context.lineWidth = 4.5;
  trace();
  context.strokeStyle = theme.path;
  context.lineWidth = 2.5;
  trace();
  context.lineWidth = 1;
}

/** Returns the row of the tree whose piece is at this point, or -1. */
export function laneHit(view: LanesView, width: number, x: number, y: number): number {
  const { places } = lanePlaces(view.layers);
  const { rows, lanes, depths, froms, tos } = view.layers.pieces;
  const ns = view.from + (x / width) * (view.to - view.from);
  const near = (3 / width) * (view.to - view.from);
  let best = -1;
  let distance = near;
  for (let at = 0; at < rows.length; at += 1) {
    if (froms[at] > ns + near) break;
    const top = barY(places[lanes[at]], depths[at]);
    if (y < top - 2 || y > top + BAR + 2) continue;
    const away = ns < froms[at] ? froms[at] - ns : Math.max(0, ns - tos[at]);
    if (away <= distance) [best, distance] = [rows[at], away];
  }
  return best;
}
