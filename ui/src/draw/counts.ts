// Draws bars of how many traces or spans started in each interval, and how many of them failed. Independent of the DOM
// around the canvas.

import type { HeatmapAnswer } from '../api';
import { count, nanoseconds } from '../format';
import { crisp, line, prepare } from './canvas';
import { type Frame, xOf } from './scatter';
import type { Theme } from './theme';

export interface Counts {
  startNs: bigint;
  columnNs: number;
  all: number[];
  errors: number[];
  /** Sums over all columns. */
  total: number;
  failed: number;
}

/** Adds up the cells of each column, for two heatmaps of the same time range. */
export function countsOf(all: HeatmapAnswer, errors: HeatmapAnswer): Counts {
  const sums = (map: HeatmapAnswer) => {
    const columns = new Array<number>(all.columns).fill(0);
    for (const [column, , spans] of map.cells) if (column < columns.length) columns[column] += spans;
    return columns;
  };
  return { startNs: nanoseconds(all.startNs) ?? 0n, columnNs: all.columnNs, all: sums(all), errors: sums(errors), total: all.spans, failed: errors.spans };
}

/** Returns the column at an x coordinate, or -1. */
export function countAt(frame: Frame, counts: Counts, x: number): number {
  const ns = frame.startNs + BigInt(Math.round(((x - frame.area.x) / frame.area.width) * frame.lengthNs));
  const column = Math.floor(Number(ns - counts.startNs) / counts.columnNs);
  return column >= 0 && column < counts.all.length && x >= frame.area.x ? column : -1;
}

export function drawCounts(canvas: HTMLCanvasElement, width: number, height: number, frame: Frame, counts: Counts, hovered: number, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 40) return;
  const most = counts.all.reduce((greatest, each) => Math.max(greatest, each), 1);
  const bottom = height - 4;
  const high = bottom - 8;
  const at = (column: number) => xOf(frame, counts.startNs + BigInt(Math.round(column * counts.columnNs)));
  const right = frame.area.x + frame.area.width;
  for (let column = 0; column < counts.all.length; column += 1) {
    if (counts.all[column] === 0) continue;
    const [x, end] = [Math.max(at(column), frame.area.x), Math.min(at(column + 1), right)];
    if (end <= x) continue;
    const wide = Math.max(1, end - x - (end - x > 4 ? 1 : 0));
    // A count above 0 gets a bar of at least 1.5 pixels.
    const [whole, bad] = [counts.all[column], counts.errors[column]].map((each) => (each === 0 ? 0 : Math.max(1.5, (each / most) * high)));
    context.globalAlpha = hovered >= 0 && hovered !== column ? 0.6 : 1;
    context.fillStyle = theme.colours[0];
    context.fillRect(x, bottom - whole, wide, whole);
    context.fillStyle = theme.error;
    context.fillRect(x, bottom - bad, wide, bad);
  }
  context.globalAlpha = 1;
  context.strokeStyle = theme.line;
  line(context, frame.area.x, crisp(bottom), right, crisp(bottom));
  context.fillStyle = theme.muted;
  context.textAlign = 'right';
  context.fillText(count(most), frame.area.x - 6, 10);
  context.fillText('0', frame.area.x - 6, bottom - 3);
  context.textAlign = 'left';
}
