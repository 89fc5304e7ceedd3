// Tests of the layout of the map.

import { expect, it } from 'vitest';
import { LABEL, layout } from './graph';

const edges = (text: string) => text.split(' ').map((pair) => ({ from: pair[0], to: pair[1] }));

it('has callers left of the called', () => {
  const { boxes } = layout(edges('ab bc ac cd'));
  expect([...boxes.values()].sort((x, y) => (x.name < y.name ? -1 : 1)).map((box) => box.column)).toEqual([0, 1, 2, 3]);
});

it('knows circles and calls of itself', () => {
  const { boxes, edges: placed } = layout(edges('ab bc ca aa'));
  expect(boxes.size).toBe(3);
  expect(placed.filter((each) => each.isBack).length).toBe(2);
  for (const each of placed) for (const [x, y] of each.curve) expect(Number.isFinite(x + y)).toBe(true);
});

it('has no two services in one place', () => {
  const { boxes, width, height } = layout(edges('ab ac ad ae bf cf df ef fg'));
  const places = new Set([...boxes.values()].map((box) => `${box.x},${box.y}`));
  expect(places.size).toBe(boxes.size);
  for (const box of boxes.values()) {
    expect(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height).toBe(true);
  }
});

it('has no words upon words where edges cross', () => {
  const { edges: placed } = layout(edges('ax ay bx by'));
  for (const one of placed) {
    for (const other of placed) {
      if (one === other) continue;
      expect(Math.abs(one.labelX - other.labelX) >= LABEL.width || Math.abs(one.labelY - other.labelY) >= LABEL.height, `${one.edge.from}${one.edge.to} ${other.edge.from}${other.edge.to}`).toBe(true);
    }
  }
});

it('is empty for nothing', () => {
  expect(layout([]).boxes.size).toBe(0);
});
