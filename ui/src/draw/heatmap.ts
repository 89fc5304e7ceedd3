// Draws a heatmap of durations over time, and a histogram of durations. Independent of the DOM around the canvas.

import type { Bar, HeatmapAnswer } from '../api';
import { count, nanoseconds, round } from '../format';
import { logTicks, ticks } from '../model/scale';
import { durationAxis, timeAxis } from './axes';
import { type Area, crisp, line, outline, prepare } from './canvas';
import { rampColour, type Theme } from './theme';

/** A range of cells, both ends included. Row 0 is the shortest duration. */
export interface CellBox {
  left: number;
  right: number;
  low: number;
  high: number;
}

export function heatArea(width: number, height: number): Area {
  return { x: 62, y: 8, width: Math.max(20, width - 72), height: Math.max(20, height - 32) };
}

export function cellAt(map: HeatmapAnswer, area: Area, x: number, y: number): [number, number] {
  const column = Math.floor(((x - area.x) / area.width) * map.columns);
  const row = Math.floor((1 - (y - area.y) / area.height) * map.rows.length);
  const within = (value: number, count: number) => Math.min(count - 1, Math.max(0, value));
  return [within(column, map.columns), within(row, map.rows.length)];
}

function boxArea(map: HeatmapAnswer, area: Area, box: CellBox): Area {
  const [wide, high] = [area.width / map.columns, area.height / map.rows.length];
  return {
    x: area.x + box.left * wide,
    y: area.y + (map.rows.length - 1 - box.high) * high,
    width: (box.right - box.left + 1) * wide,
    height: (box.high - box.low + 1) * high,
  };
}

export function drawHeatmap(canvas: HTMLCanvasElement, width: number, height: number, map: HeatmapAnswer, cursor: [number, number] | null, box: CellBox | null, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 40) return;
  const area = heatArea(width, height);
  const rows = map.rows.length;
  if (rows === 0) return;
  // Rows grow by a constant factor, so positions between them are interpolated on a logarithmic scale.
  const [least, greatest] = [Math.max(1, map.rows[0].leastNs), Math.max(2, map.rows[rows - 1].greatestNs + 1)];
  const yOf = (ns: number) => area.y + (1 - Math.log(ns / least) / Math.log(greatest / least)) * area.height;
  const startNs = nanoseconds(map.startNs) ?? 0n;
  timeAxis(context, area, startNs, map.columnNs * map.columns, theme);
  durationAxis(context, area, least, greatest, yOf, theme);
  const most = map.cells.reduce((greatest, cell) => Math.max(greatest, cell[2]), 1);
  const [wide, high] = [area.width / map.columns, area.height / rows];
  for (const [column, row, spans] of map.cells) {
    context.fillStyle = rampColour(theme, spans, most);
    const [x, right] = [Math.round(area.x + column * wide), Math.round(area.x + (column + 1) * wide)];
    const top = area.y + (rows - 1 - row) * high;
    const [y, bottom] = [Math.round(top), Math.round(top + high)];
    context.fillRect(x, y, Math.max(1, right - x - (wide > 5 ? 1 : 0)), Math.max(1, bottom - y - (high > 5 ? 1 : 0)));
  }
  context.strokeStyle = theme.line;
  context.strokeRect(crisp(area.x), crisp(area.y), Math.round(area.width), Math.round(area.height));
  if (box !== null) outline(context, boxArea(map, area, box), theme);
  if (cursor !== null) {
    const at = boxArea(map, area, { left: cursor[0], right: cursor[0], low: cursor[1], high: cursor[1] });
    context.strokeStyle = theme.text;
    context.lineWidth = 2;
    context.strokeRect(at.x - 1, at.y - 1, Math.max(at.width, 4) + 2, Math.max(at.height, 4) + 2);
    context.lineWidth = 1;
  }
}

/** Merges the bars of a histogram to at most four for each power of two. */
export function coarser(bars: Bar[]): Bar[] {
  const merged = new Map<number, Bar>();
  for (const bar of bars) {
    const place = Math.floor(Math.log2(Math.max(1, bar.leastNs)) * 4 + 1e-9);
    const known = merged.get(place);
    if (known === undefined) merged.set(place, { ...bar, leastNs: 2 ** (place / 4), greatestNs: 2 ** ((place + 1) / 4) });
    else known.spans += bar.spans;
  }
  return [...merged.values()].sort((a, b) => a.leastNs - b.leastNs);
}

export interface Histogram {
  bars: Bar[];
  area: Area;
  least: number;
  greatest: number;
  /** Spans in the tallest bar. */
  most: number;
}

/** Width of the axis of counts, at the left. */
const COUNTS_WIDTH = 46;

export function histogramOf(all: Bar[], width: number, height: number): Histogram | null {
  if (width < 80 || all.length === 0) return null;
  const bars = coarser(all);
  return {
    bars,
    area: { x: COUNTS_WIDTH, y: 22, width: width - COUNTS_WIDTH - 8, height: height - 44 },
    least: bars[0].leastNs / 1.1,
    greatest: bars[bars.length - 1].greatestNs * 1.1,
    most: bars.reduce((sum, bar) => Math.max(sum, bar.spans), 1),
  };
}

const barX = ({ area, least, greatest }: Histogram, ns: number): number => area.x + (Math.log(Math.max(ns, least) / least) / Math.log(greatest / least)) * area.width;

/** Returns the duration at an x coordinate, limited to the drawn range. */
export function durationAt({ area, least, greatest }: Histogram, x: number): number {
  const part = Math.min(1, Math.max(0, (x - area.x) / area.width));
  return least * (greatest / least) ** part;
}

/** Returns the bar at an x coordinate, or null where no span was counted. */
export function barAt(histogram: Histogram, x: number): Bar | null {
  if (x < histogram.area.x || x > histogram.area.x + histogram.area.width) return null;
  const ns = durationAt(histogram, x);
  return histogram.bars.find((bar) => ns >= bar.leastNs && ns < bar.greatestNs) ?? null;
}

export function drawHistogram(canvas: HTMLCanvasElement, width: number, height: number, all: Bar[], marks: [string, number][], hovered: Bar | null, dragged: [number, number] | null, theme: Theme): void {
  const context = prepare(canvas, width, height);
  const histogram = histogramOf(all, width, height);
  if (context === null || histogram === null) return;
  const { bars, area, least, greatest, most } = histogram;
  const xOf = (ns: number) => barX(histogram, ns);
  const bottom = area.y + area.height;
  context.textAlign = 'right';
  for (const mark of ticks(0, most, 4).at.filter(Number.isInteger)) {
    const y = bottom - (mark / most) * area.height;
    context.strokeStyle = theme.faint;
    line(context, area.x, crisp(y), area.x + area.width, crisp(y));
    context.fillStyle = theme.muted;
    context.fillText(count(mark), area.x - 6, y);
  }
  context.textAlign = 'center';
  let last = Number.NEGATIVE_INFINITY;
  for (const mark of logTicks(least, greatest)) {
    const x = xOf(mark);
    context.strokeStyle = theme.faint;
    line(context, crisp(x), area.y, crisp(x), bottom);
    if (x - last < 52 || x < area.x + 16 || x > width - 24) continue;
    last = x;
    context.fillStyle = theme.muted;
    context.fillText(round(mark), x, bottom + 12);
  }
  for (const bar of bars) {
    const [x, right] = [xOf(bar.leastNs), xOf(bar.greatestNs)];
    const high = Math.max(1, (bar.spans / most) * area.height);
    context.fillStyle = bar.leastNs === hovered?.leastNs ? theme.accent : theme.colours[0];
    context.globalAlpha = hovered === null || bar.leastNs === hovered.leastNs ? 1 : 0.65;
    context.fillRect(x, bottom - high, Math.max(1, right - x - 1), high);
  }
  context.globalAlpha = 1;
  context.strokeStyle = theme.line;
  line(context, area.x, crisp(bottom), area.x + area.width, crisp(bottom));
  let right = Number.NEGATIVE_INFINITY;
  for (const [name, ns] of marks) {
    const x = xOf(ns);
    context.strokeStyle = theme.text;
    context.setLineDash([2, 2]);
    line(context, crisp(x), area.y - 4, crisp(x), bottom);
    context.setLineDash([]);
    if (x - right < 26) continue;
    right = x;
    context.fillStyle = theme.text;
    context.fillText(name, Math.min(width - 14, Math.max(area.x + 14, x)), area.y - 12);
  }
  context.textAlign = 'left';
  if (dragged !== null) outline(context, { x: xOf(dragged[0]), y: area.y, width: xOf(dragged[1]) - xOf(dragged[0]), height: area.height }, theme);
}
