// Draws axes: times since 1970 or since the start of a request, and durations on a logarithmic scale.

import { day, mark as words, round, tick, zoneMinutes } from '../format';
import { logTicks, ticks } from '../model/scale';
import { type Area, crisp, line } from './canvas';
import type { Theme } from './theme';

/** Draws the duration axis at the left of an area, with grid lines across the area. */
export function durationAxis(
  context: CanvasRenderingContext2D,
  area: Area,
  least: number,
  greatest: number,
  yOf: (ns: number) => number,
  theme: Theme,
): void {
  context.textAlign = 'right';
  let last = Number.POSITIVE_INFINITY;
  for (const mark of logTicks(least, greatest)) {
    const y = yOf(mark);
    context.strokeStyle = theme.faint;
    context.lineWidth = 1;
    line(context, area.x, crisp(y), area.x + area.width, crisp(y));
    if (last - y < 14) continue;
    last = y;
    context.fillStyle = theme.muted;
    context.fillText(round(mark), area.x - 6, y);
  }
  context.textAlign = 'left';
}

/** Draws the time axis below an area that shows `lengthNs` nanoseconds from `startNs` on. */
export function timeAxis(
  context: CanvasRenderingContext2D,
  area: Area,
  startNs: bigint,
  lengthNs: number,
  theme: Theme,
): void {
  // Marks are multiples of the step since midnight of the shown time zone.
  const zone = BigInt(-zoneMinutes(Number(startNs / 1_000_000n))) * 60_000_000_000n;
  const base = startNs - ((startNs - zone) % 86_400_000_000_000n);
  const offset = Number(startNs - base);
  const { step, at } = ticks(offset, offset + lengthNs, Math.max(2, area.width / 110));
  const bottom = area.y + area.height;
  context.textAlign = 'center';
  let isFirst = true;
  for (const mark of at) {
    const x = area.x + ((mark - offset) / lengthNs) * area.width;
    context.strokeStyle = theme.faint;
    context.lineWidth = 1;
    line(context, crisp(x), area.y, crisp(x), bottom);
    if (x < area.x + 26 || x > area.x + area.width - 26) continue;
    const time = base + BigInt(Math.round(mark));
    context.fillStyle = theme.muted;
    const told = tick(time, step);
    context.fillText(isFirst && step < 86_400e9 && area.width > 320 && x > area.x + 60 ? `${day(time).slice(5)} ${told}` : told, x, bottom + 12);
    isFirst = false;
  }
  context.textAlign = 'left';
}

/** Draws the axis of a request's time in the top `height` pixels of an area, with grid lines down to its bottom. */
export function ruler(
  context: CanvasRenderingContext2D,
  area: Area,
  height: number,
  from: number,
  to: number,
  theme: Theme,
): void {
  const { step, at } = ticks(from, to, Math.max(2, area.width / 100));
  for (const mark of at) {
    const x = area.x + ((mark - from) / (to - from)) * area.width;
    context.strokeStyle = theme.faint;
    context.lineWidth = 1;
    line(context, crisp(x), area.y + height, crisp(x), area.y + area.height);
    context.strokeStyle = theme.line;
    line(context, crisp(x), area.y + height - 6, crisp(x), area.y + height);
    context.fillStyle = theme.muted;
    if (x < area.x + area.width - 44) context.fillText(words(mark, step, to), x + 4, area.y + height / 2);
  }
}
