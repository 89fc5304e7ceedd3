// Draws the bars of a request's spans, only for the visible rows, and the overview of all rows. Independent of the DOM
// around the canvas.

import { duration } from '../format';
import type { Path } from '../model/critical';
import { bandRange } from '../model/own';
import { eachOwn, type Tree } from '../model/tree';
import { ruler } from './axes';
import { type Area, crisp, errorMark, hatch, line, prepare } from './canvas';
import { fillKind, nameKind } from './own';
import type { Colours, Theme } from './theme';

export const ROW = 22;
export const HEAD = 26;

/** Width to the right of the time range, so that labels of durations cover neither ends of bars nor events. */
export const LABEL_ROOM = 58;

/** Returns how many pixels of a drawing's width show the time range. */
export const timeWidth = (width: number): number => Math.max(20, width - LABEL_ROOM);

/** Height of the service's colour and of a gap above the bands of own time, in pixels. */
const SERVICE_STRIP = 4;

/** Rows with more descendants than this are drawn without self time, which would take too long to compute. */
const OWN_MAX = 3000;

export interface View {
  tree: Tree;
  /** Rows of the tree that are not collapsed. */
  seen: Uint32Array;
  /** The first drawn row, and how many pixels of it are above the edge. */
  first: number;
  offset: number;
  /** The shown time range, in nanoseconds since the start of the request. */
  from: number;
  to: number;
  chosen: number;
  hovered: number;
  matches: Uint8Array | null;
  path: Path | null;
  colours: Colours;
  /** Kind of own time that is highlighted, and the band with a frame; -1 for none. */
  kind: number;
  band: number;
}

export function drawWaterfall(canvas: HTMLCanvasElement, width: number, height: number, view: View, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 10) return;
  const { tree, seen, from, to } = view;
  const area = { x: 0, y: 0, width, height };
  const scale = timeWidth(width) / (to - from);
  const last = Math.min(seen.length, view.first + Math.ceil((height - HEAD + view.offset) / ROW));
  context.save();
  context.beginPath();
  context.rect(0, HEAD, width, height - HEAD);
  context.clip();
  for (let place = view.first; place < last; place += 1) {
    const y = HEAD + (place - view.first) * ROW - view.offset;
    background(context, view, seen[place], y, width, theme);
  }
  context.restore();
  ruler(context, { ...area, width: timeWidth(width) }, HEAD, from, to, theme);
  context.save();
  context.beginPath();
  context.rect(0, HEAD, width, height - HEAD);
  context.clip();
  for (let place = view.first; place < last; place += 1) {
    const y = HEAD + (place - view.first) * ROW - view.offset;
    bar(context, view, seen[place], y, width, scale, theme);
  }
  context.restore();
  context.strokeStyle = theme.line;
  line(context, 0, HEAD - 0.5, width, HEAD - 0.5);
  if (tree.ends.length === 0) return;
}

function background(context: CanvasRenderingContext2D, view: View, row: number, y: number, width: number, theme: Theme): void {
  if (row === view.chosen) context.fillStyle = theme.selection;
  else if (row === view.hovered) context.fillStyle = theme.faint;
  else if (view.matches?.[row]) context.fillStyle = theme.isDark ? 'rgba(230, 190, 60, 0.16)' : 'rgba(240, 190, 0, 0.18)';
  else return;
  context.fillRect(0, y, width, ROW);
}

function bar(context: CanvasRenderingContext2D, view: View, row: number, y: number, width: number, scale: number, theme: Theme): void {
  const { tree, from } = view;
  const start = tree.starts[row];
  const took = tree.durations[row];
  const middle = y + ROW / 2;
  if (Number.isNaN(start)) {
    context.fillStyle = theme.muted;
    context.fillText('no start time', 8, middle);
    return;
  }
  const service = tree.services[row] < 0 ? '' : tree.strings[tree.services[row]];
  const colour = view.colours.colour(service, theme);
  const until = from + width / scale;
  if (start > until || start + (took || 0) < from) {
    // The bar is outside of the shown time: an arrow points to it.
    const isLate = start > until;
    context.fillStyle = theme.muted;
    context.textAlign = isLate ? 'right' : 'left';
    context.fillText(isLate ? '▸' : '◂', isLate ? width - 6 : 6, middle);
    context.textAlign = 'left';
    return;
  }
  const clip = (ns: number) => Math.min(width + 8, Math.max(-8, (ns - from) * scale));
  const left = clip(start);
  const right = clip(start + (took || 0));
  const wide = Math.max(right - left, 2);
  const isOpen = Number.isNaN(took);
  const [firstBand, endBand] = isOpen || wide <= 3 ? [0, 0] : bandRange(tree, row);
  const hasBands = endBand > firstBand;
  const [top, high] = hasBands ? [y + 3, ROW - 8] : [y + 5, ROW - 10];
  context.fillStyle = colour;
  const hasOwn = !isOpen && tree.ends[row] > row + 1 && tree.ends[row] - row <= OWN_MAX && wide > 3;
  context.globalAlpha = hasOwn ? 0.38 : 1;
  context.fillRect(left, top, isOpen ? 2 : wide, high);
  context.globalAlpha = 1;
  if (hasOwn) {
    eachOwn(tree, row, (ownFrom, ownTo) => {
      const x = clip(ownFrom);
      context.fillRect(x, top, Math.max(clip(ownTo) - x, 0.75), high);
    });
  }
  if (view.colours.isHatched(service)) hatch(context, { x: left, y: top, width: wide, height: high }, theme.background);
  if (hasBands) bands(context, view, row, firstBand, endBand, { x: left, y: top + SERVICE_STRIP, width: wide, height: high - SERVICE_STRIP }, clip, theme);
  if (tree.errors[row]) {
    context.strokeStyle = theme.error;
    context.lineWidth = 1.5;
    context.strokeRect(left - 0.75, top - 0.75, wide + 1.5, high + 1.5);
    context.fillStyle = theme.error;
    if (left > 12) errorMark(context, left - 8, middle, 4.5);
    else {
      // On a background, because the bar may have any colour.
      context.fillStyle = theme.background;
      context.fillRect(Math.max(left, 0) + 1, top + 1, 14, high - 2);
      context.fillStyle = theme.error;
      errorMark(context, Math.max(left, 0) + 8, middle, 4.5);
    }
  }
  if (view.path !== null) critical(context, view, row, y, clip, theme);
  notes(context, view, row, middle, width, scale, theme);
  label(context, left, left + wide, middle, width, isOpen ? 'no end' : duration(took), theme, tree.errors[row] !== 0);
}

/** Draws the bands of a row's own time. Where children ran, the bar stays as it is. */
function bands(context: CanvasRenderingContext2D, view: View, row: number, first: number, end: number, area: Area, clip: (ns: number) => number, theme: Theme): void {
  const { starts, durations, kinds } = view.tree.own;
  for (let band = first; band < end; band += 1) {
    const start = view.tree.starts[row] + starts[band];
    const x = clip(start);
    const part = { ...area, x, width: Math.max(clip(start + durations[band]) - x, 0.75) };
    if (x + part.width < 0 || x > area.x + area.width) continue;
    context.globalAlpha = 1;
    context.fillStyle = theme.background;
    context.fillRect(part.x, part.y - 1, part.width, part.height + 1);
    context.globalAlpha = view.kind < 0 || view.kind === kinds[band] ? 1 : 0.2;
    fillKind(context, part, kinds[band], theme);
    if (context.globalAlpha === 1) nameKind(context, part, kinds[band], theme);
  }
  context.globalAlpha = 1;
  if (view.band < first || view.band >= end) return;
  const start = view.tree.starts[row] + starts[view.band];
  const x = clip(start);
  context.strokeStyle = theme.text;
  context.lineWidth = 2;
  context.strokeRect(x - 1, area.y - 1, Math.max(clip(start + durations[view.band]) - x, 1) + 2, area.height + 2);
}

function label(context: CanvasRenderingContext2D, left: number, right: number, y: number, width: number, text: string, theme: Theme, isError: boolean): void {
  const size = context.measureText(text).width;
  context.fillStyle = theme.muted;
  const before = left - (isError ? 18 : 6) - size;
  if (right + 6 + size < width) context.fillText(text, Math.max(right, 0) + 6, y);
  else if (before > 2) context.fillText(text, Math.min(before, width - size - 6), y);
  else {
    // Over the bar, on a background.
    context.fillStyle = theme.background;
    context.globalAlpha = 0.85;
    context.fillRect(width - size - 12, y - 7, size + 8, 14);
    context.globalAlpha = 1;
    context.fillStyle = theme.text;
    context.fillText(text, width - size - 8, y);
  }
}

function critical(context: CanvasRenderingContext2D, view: View, row: number, y: number, clip: (ns: number) => number, theme: Theme): void {
  const path = view.path as Path;
  if (!path.isOn[row]) return;
  context.fillStyle = theme.path;
  for (let at = path.firsts[row]; at < path.firsts[row + 1]; at += 1) {
    const piece = path.byRow[at];
    const left = clip(path.froms[piece]);
    context.fillRect(left, y + ROW - 5, Math.max(clip(path.tos[piece]) - left, 1.5), 3);
  }
}

function notes(context: CanvasRenderingContext2D, view: View, row: number, middle: number, width: number, scale: number, theme: Theme): void {
  const { tree, from } = view;
  let last = Number.NEGATIVE_INFINITY;
  for (let note = tree.firstNotes[row]; note < tree.firstNotes[row + 1]; note += 1) {
    const x = (tree.notes.times[note] - from) * scale;
    if (x < -4 || x > width + 4 || x - last < 2) continue;
    last = x;
    context.fillStyle = theme.background;
    context.strokeStyle = theme.text;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, middle - 4);
    context.lineTo(x + 3.5, middle);
    context.lineTo(x, middle + 4);
    context.lineTo(x - 3.5, middle);
    context.closePath();
    context.fill();
    context.stroke();
  }
}

/** Draws the overview: each span at its position among all rows. Above 3,000 rows it counts bars per pixel instead of
 * filling a rectangle for each. */
export function drawAll(canvas: HTMLCanvasElement, width: number, height: number, tree: Tree, least: number, greatest: number, colours: Colours, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 4) return;
  const rows = tree.ends.length;
  const scale = width / (greatest - least);
  if (rows <= 3000) {
    for (let row = 0; row < rows; row += 1) {
      if (Number.isNaN(tree.starts[row])) continue;
      const service = tree.services[row] < 0 ? '' : tree.strings[tree.services[row]];
      context.fillStyle = tree.errors[row] ? theme.error : colours.colour(service, theme);
      const x = (tree.starts[row] - least) * scale;
      const y = Math.min((row / rows) * (height - 4) + 2, row * 4 + 2);
      const high = Math.min(3, Math.max(1, (height - 4) / rows));
      context.fillRect(x, y, Math.max((tree.durations[row] || 0) * scale, 1), high);
    }
    return;
  }
  // Difference arrays: +1 where a bar begins and -1 where it ends, then a running sum along each line of pixels.
  const [wide, high] = [canvas.width, canvas.height];
  const sums = new Int32Array((wide + 1) * high);
  const toX = wide / (greatest - least);
  for (let row = 0; row < rows; row += 1) {
    const start = tree.starts[row];
    if (Number.isNaN(start)) continue;
    const y = Math.floor((row / rows) * high) * (wide + 1);
    const x = Math.min(wide - 1, Math.max(0, Math.floor((start - least) * toX)));
    const end = Math.min(wide, Math.max(x + 1, Math.ceil((start - least + (tree.durations[row] || 0)) * toX)));
    sums[y + x] += 1;
    sums[y + end] -= 1;
  }
  const image = context.createImageData(wide, high);
  const pixels = new Uint32Array(image.data.buffer);
  const shades = shadesOf(theme);
  for (let y = 0; y < high; y += 1) {
    let sum = 0;
    for (let x = 0; x < wide; x += 1) {
      sum += sums[y * (wide + 1) + x];
      if (sum > 0) pixels[y * wide + x] = shades[Math.min(shades.length - 1, Math.floor(Math.log2(sum) * 1.5))];
    }
  }
  context.putImageData(image, 0, 0);
}

/** Converts the theme's ramp to pixels, which are little-endian (ABGR) in memory. */
function shadesOf(theme: Theme): Uint32Array {
  return Uint32Array.from(theme.ramp.slice(1), (colour) => {
    const value = Number.parseInt(colour.slice(1), 16);
    return (0xff000000 | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
  });
}

/** Draws the frame in the overview around the shown range. */
export function drawWindow(canvas: HTMLCanvasElement, width: number, height: number, left: number, right: number, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null) return;
  context.fillStyle = theme.shade;
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.strokeStyle = theme.accent;
  context.lineWidth = 2;
  for (const x of [Math.max(left, 1), Math.min(right, width - 1)]) line(context, x, 0, x, height);
  context.lineWidth = 1;
  line(context, left, crisp(0), right, crisp(0));
}
