// Tests of lanes: their order, time inside and between services.

import { describe, expect, it } from 'vitest';
import { beside, layersOf } from './layers';
import { treeOf } from './testing';

describe('layersOf', () => {
  const layers = layersOf(
    treeOf([
      ['a', '', 0, 100, 'guest'],
      ['b', 'a', 10, 80, 'guest', 'client'],
      ['c', 'b', 20, 50, 'nbd', 'server'],
      ['d', 'c', 30, 20, 'osd', 'server'],
      ['e', 'c', 40, 20, 'osd', 'server'],
    ]),
  );

  it('has services in the order in which they are reached', () => {
    expect(layers.lanes.map((lane) => lane.service)).toEqual(['guest', 'nbd', 'osd']);
    expect(layers.lanes.map((lane) => lane.spans)).toEqual([2, 1, 2]);
  });

  it('counts inside what is no waiting for others', () => {
    // guest: 0 to 10 and 90 to 100; the 80 between are its wait for the call. nbd: 50 minus 30 to 60.
    expect(layers.lanes.map((lane) => lane.insideNs)).toEqual([20, 20, 40]);
    expect(layers.lanes.map((lane) => lane.busyNs)).toEqual([100, 50, 30]);
  });

  it('counts between what the caller took longer than the called', () => {
    expect(layers.pairs).toEqual([
      { from: 'guest', to: 'nbd', calls: 1, errors: 0, known: 1, betweenNs: 30, greatestNs: 30 },
      { from: 'nbd', to: 'osd', calls: 2, errors: 0, known: 0, betweenNs: 0, greatestNs: 0 },
    ]);
  });

  it('draws what overlaps in one lane below one another', () => {
    const { pieces } = layers;
    const osd = [...pieces.rows.keys()].filter((at) => layers.lanes[pieces.lanes[at]].service === 'osd');
    expect(osd.map((at) => pieces.depths[at])).toEqual([0, 1]);
    expect(layers.lanes[2].depth).toBe(2);
  });

  it('gives a caller’s waiting to the longest of several calls', () => {
    const two = layersOf(
      treeOf([
        ['a', '', 0, 100, 'guest', 'client'],
        ['b', 'a', 10, 50, 'osd.1', 'server'],
        ['c', 'a', 10, 70, 'osd.2', 'server'],
      ]),
    );
    expect(two.pairs.map((pair) => [pair.to, pair.known, pair.betweenNs])).toEqual([['osd.1', 0, 0], ['osd.2', 1, 30]]);
  });

  it('is empty for nothing', () => {
    expect(layersOf(treeOf([])).lanes).toEqual([]);
  });
});

it('puts two lists beside each other', () => {
  const both = beside([{ n: 'x', v: 1 }, { n: 'y', v: 2 }], [{ n: 'z', v: 3 }, { n: 'x', v: 4 }], (item) => item.n);
  expect(both.map((each) => [each.name, each.a?.v, each.b?.v])).toEqual([['x', 1, 4], ['y', 2, undefined], ['z', undefined, 3]]);
});

it('knows no network time between who sends a message and who consumes it', () => {
  const layers = layersOf(treeOf([['a', '', 0, 10, 'orders', 'producer'], ['b', 'a', 500, 90, 'mailer', 'consumer']]));
  expect(layers.pairs).toMatchObject([{ from: 'orders', to: 'mailer', calls: 1, known: 0, betweenNs: 0 }]);
});

it('counts services beyond those that have a lane', () => {
  const layers = layersOf(treeOf(Array.from({ length: 300 }, (_, at) => [`${at + 1}`, '', at, 10, `s${at}`])));
  expect([layers.services, layers.lanes.length]).toEqual([300, 201]);
});
