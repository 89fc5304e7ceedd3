// Draws kinds of own time: each has a colour and a pattern, so that none is told by colour alone. Used for bands in
// bars and for the swatches and bars of tables.

import { OWN_KINDS } from '../model/own';
import { type Area, FONT, prepare } from './canvas';
import { inkOn, type Theme } from './theme';

export type Pattern = 'plain' | 'rising' | 'falling' | 'level' | 'upright' | 'crossed' | 'dotted' | 'wide';

/** Patterns by kind, in the order of OWN_KINDS. Kinds with similar colours have different patterns. */
export const PATTERNS: readonly Pattern[] = ['plain', 'rising', 'crossed', 'upright', 'level', 'dotted', 'falling', 'crossed', 'plain', 'wide', 'dotted'];

/** Edge of a pattern's tile, in pixels of the screen at ratio 1. */
const TILE = 6;
const SMALL_FONT = FONT.replace('11px', '9.5px');

/** Pattern tiles by colours, pattern and screen resolution. There are few of each. */
const tiles = new Map<string, HTMLCanvasElement>();

function tile(kind: number, theme: Theme): HTMLCanvasElement | null {
  const ratio = globalThis.devicePixelRatio || 1;
  const key = `${kind} ${theme.isDark} ${ratio}`;
  const known = tiles.get(key);
  if (known !== undefined) return known;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = Math.max(TILE, Math.round(TILE * ratio));
  const context = canvas.getContext('2d');
  if (context === null) return null;
  context.scale(canvas.width / TILE, canvas.width / TILE);
  context.fillStyle = theme.own[kind];
  context.fillRect(0, 0, TILE, TILE);
  context.fillStyle = context.strokeStyle = theme.background;
  mark(context, PATTERNS[kind]);
  tiles.set(key, canvas);
  return canvas;
}

/** Draws one tile's marks. Lines that leave the tile enter it at the opposite edge. */
function mark(context: CanvasRenderingContext2D, pattern: Pattern): void {
  const path = (...points: [number, number, number, number][]) => {
    context.lineWidth = 1.1;
    context.beginPath();
    for (const [x1, y1, x2, y2] of points) {
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
    }
    context.stroke();
  };
  const rising: [number, number, number, number][] = [[-1, TILE + 1, TILE + 1, -1], [-1, 1, 1, -1], [TILE - 1, TILE + 1, TILE + 1, TILE - 1]];
  const falling = rising.map(([x1, y1, x2, y2]): [number, number, number, number] => [x1, TILE - y1, x2, TILE - y2]);
  if (pattern === 'rising') path(...rising);
  else if (pattern === 'falling') path(...falling);
  else if (pattern === 'crossed') path(...rising, ...falling);
  else if (pattern === 'level') path([0, 2.5, TILE, 2.5]);
  else if (pattern === 'upright') path([2.5, 0, 2.5, TILE]);
  else if (pattern === 'dotted') {
    context.fillRect(1, 1, 1.5, 1.5);
    context.fillRect(4, 4, 1.5, 1.5);
  } else if (pattern === 'wide') context.fillRect(2, 0, TILE / 2, TILE);
}

/** Fills an area with the colour and pattern of a kind. */
export function fillKind(context: CanvasRenderingContext2D, { x, y, width, height }: Area, kind: number, theme: Theme): void {
  const image = width < 3 ? null : tile(kind, theme);
  const pattern = image === null ? null : context.createPattern(image, 'repeat');
  if (pattern !== null && image !== null) {
    pattern.setTransform(new DOMMatrix().translate(0, y).scale(TILE / image.width));
    context.fillStyle = pattern;
  } else context.fillStyle = theme.own[kind];
  context.fillRect(x, y, width, height);
}

/** Writes the name of a kind into its band, on plain colour, if there is room. */
export function nameKind(context: CanvasRenderingContext2D, { x, y, width, height }: Area, kind: number, theme: Theme): void {
  if (width < 24) return;
  const { name } = OWN_KINDS[kind];
  context.font = SMALL_FONT;
  const size = context.measureText(name).width;
  if (size + 10 <= width) {
    const left = x + (width - size) / 2;
    context.fillStyle = theme.own[kind];
    context.fillRect(left - 3, y, size + 6, height);
    context.fillStyle = inkOn(theme.own[kind]);
    context.fillText(name, left, y + height / 2 + 0.5);
  }
  context.font = FONT;
}

/** Draws sums side by side as one bar, in which `total` has the full width. */
export function drawSums(canvas: HTMLCanvasElement, width: number, height: number, sums: ArrayLike<number>, total: number, theme: Theme): void {
  const context = prepare(canvas, width, height);
  if (context === null || !(total > 0)) return;
  let x = 0;
  for (const kind of OWN_KINDS.keys()) {
    if (!(sums[kind] > 0)) continue;
    const part = (sums[kind] / total) * width;
    fillKind(context, { x, y: 0, width: Math.max(part, 0.75), height }, kind, theme);
    x += part;
  }
}
