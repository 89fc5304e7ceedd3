// Draws requests as points by start time and duration. Independent of the DOM around the canvas.

import type { Summary } from '../api';
import { durationAxis, timeAxis } from './axes';
import { type Area, crisp, errorMark, prepare, selection } from './canvas';
import type { Theme } from './theme';

export interface Box {
  startNs: bigint;
  endNs: bigint;
  leastNs: number;
  greatestNs: number;
}

/** The ranges of time and duration that the drawing shows, and its area. */
export interface Frame {
  area: Area;
  startNs: bigint;
  lengthNs: number;
  least: number;
  greatest: number;
}

export function frameOf(requests: Summary[], width: number, height: number, startNs: bigint | null, endNs: bigint | null): Frame {
  let [first, last] = [startNs, endNs];
  let [least, greatest] = [Number.POSITIVE_INFINITY, 1];
  for (const request of requests) {
    const start = BigInt(request.startNs);
    if (startNs === null && (first === null || start < first)) first = start;
    if (endNs === null && (last === null || start > last)) last = start;
    const took = Math.max(1, request.durationNs);
    least = Math.min(least, took);
    greatest = Math.max(greatest, took);
  }
  const begin = first ?? 0n;
  const length = Math.max(Number((last ?? begin) - begin), 1e6);
  // A margin on all sides, but not beside a given start.
  const side = startNs === null ? length * 0.02 : 0;
  if (!Number.isFinite(least)) [least, greatest] = [1e3, 1e9];
  return {
    area: { x: 62, y: 8, width: Math.max(20, width - 72), height: Math.max(20, height - 32) },
    startNs: begin - BigInt(Math.round(side)),
    lengthNs: length + side + length * 0.02,
    least: least / 1.5,
    greatest: greatest * 1.5,
  };
}

export function xOf(frame: Frame, startNs: bigint): number {
  return frame.area.x + (Number(startNs - frame.startNs) / frame.lengthNs) * frame.area.width;
}

export function yOf(frame: Frame, ns: number): number {
  const part = Math.log(Math.max(ns, 1) / frame.least) / Math.log(frame.greatest / frame.least);
  return frame.area.y + (1 - part) * frame.area.height;
}

export function boxOf(frame: Frame, x1: number, y1: number, x2: number, y2: number): Box {
  const { area } = frame;
  const time = (x: number) => {
    const part = Math.min(1, Math.max(0, (x - area.x) / area.width));
    return frame.startNs + BigInt(Math.round(part * frame.lengthNs));
  };
  const took = (y: number) => {
    const part = 1 - Math.min(1, Math.max(0, (y - area.y) / area.height));
    return frame.least * (frame.greatest / frame.least) ** part;
  };
  return {
    startNs: time(Math.min(x1, x2)),
    endNs: time(Math.max(x1, x2)),
    leastNs: Math.floor(took(Math.max(y1, y2))),
    greatestNs: Math.ceil(took(Math.min(y1, y2))),
  };
}

export function areaOf(frame: Frame, box: Box): Area {
  const [x, right] = [xOf(frame, box.startNs), xOf(frame, box.endNs)];
  const [y, bottom] = [yOf(frame, box.greatestNs), yOf(frame, box.leastNs)];
  return { x, y, width: right - x, height: bottom - y };
}

export function isInside(box: Box, request: Summary): boolean {
  const start = BigInt(request.startNs);
  return start >= box.startNs && start <= box.endNs && request.durationNs >= box.leastNs && request.durationNs <= box.greatestNs;
}

export function drawScatter(canvas: HTMLCanvasElement, width: number, height: number, frame: Frame, requests: Summary[], chosen: string, box: Box | null, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || width < 40) return;
  const { area } = frame;
  durationAxis(context, area, frame.least, frame.greatest, (ns) => yOf(frame, ns), theme);
  timeAxis(context, area, frame.startNs, frame.lengthNs, theme);
  context.strokeStyle = theme.line;
  context.strokeRect(crisp(area.x), crisp(area.y), Math.round(area.width), Math.round(area.height));
  for (const isError of [false, true]) {
    context.fillStyle = isError ? theme.error : theme.colours[0];
    for (const request of requests) {
      if (request.errors > 0 !== isError) continue;
      const [x, y] = [xOf(frame, BigInt(request.startNs)), yOf(frame, request.durationNs)];
      context.globalAlpha = box === null || isInside(box, request) ? 0.78 : 0.22;
      if (isError) errorMark(context, x, y, 5);
      else {
        context.beginPath();
        context.arc(x, y, Math.min(6.5, 2.6 + Math.log10(Math.max(1, request.spans)) * 0.8), 0, Math.PI * 2);
        context.fill();
      }
      if (request.traceId === chosen) {
        context.globalAlpha = 1;
        context.strokeStyle = theme.text;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, 9, 0, Math.PI * 2);
        context.stroke();
        context.lineWidth = 1;
      }
    }
  }
  context.globalAlpha = 1;
  if (box !== null) selection(context, areaOf(frame, box), theme);
}

/** Returns the request nearest to a point, within a few pixels. */
export function scatterHit(frame: Frame, requests: Summary[], x: number, y: number): Summary | null {
  let best: Summary | null = null;
  let distance = 10;
  for (const request of requests) {
    const away = Math.hypot(xOf(frame, BigInt(request.startNs)) - x, yOf(frame, request.durationNs) - y);
    if (away < distance) [best, distance] = [request, away];
  }
  return best;
}
