// Functions that all drawings share: canvases at the screen's resolution, clipped text, hatching, error marks.

import type { Theme } from './theme';

export interface Area {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const FONT = '11px ui-sans-serif, system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif';

/** Sizes the canvas in CSS pixels and clears it. All drawing then uses CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== high) canvas.height = high;
  const context = canvas.getContext('2d');
  if (context === null) return null;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.globalAlpha = 1;
  context.setLineDash([]);
  return context;
}

/** Moves a coordinate to the middle of a pixel, so that thin lines are sharp. */
export const crisp = (at: number): number => Math.round(at) + 0.5;

export function line(context: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

/** Draws the triangle that marks a failed span, so that failures do not depend on colour alone. */
export function errorMark(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y + size * 0.8);
  context.lineTo(x - size, y + size * 0.8);
  context.closePath();
  context.fill();
}

/** Fills an area with slanted lines. */
export function hatch(context: CanvasRenderingContext2D, area: Area, colour: string, gap = 5): void {
  if (area.width < 2) return;
  context.save();
  context.beginPath();
  context.rect(area.x, area.y, area.width, area.height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  const first = Math.floor(area.x / gap) * gap - area.height;
  for (let x = first; x < area.x + area.width; x += gap) {
    context.moveTo(x, area.y + area.height);
    context.lineTo(x + area.height, area.y);
  }
  context.stroke();
  context.restore();
}

/** Draws a box that is selected with the mouse or keys. */
export function selection(context: CanvasRenderingContext2D, area: Area, theme: Theme): void {
  context.fillStyle = theme.selection;
  context.fillRect(area.x, area.y, area.width, area.height);
  outline(context, area, theme);
}

/** Draws the border of a selection. A tint would change the colours of cells. */
export function outline(context: CanvasRenderingContext2D, area: Area, theme: Theme): void {
  context.strokeStyle = theme.accent;
  context.lineWidth = 1.5;
  context.setLineDash([4, 3]);
  context.strokeRect(crisp(area.x), crisp(area.y), Math.round(area.width) - 1, Math.round(area.height) - 1);
  context.setLineDash([]);
}
