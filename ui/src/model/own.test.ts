// Tests of own time: hostile tags, sums per request and service, bands by time.

import { describe, expect, it } from 'vitest';
import type { Tag } from '../api';
import { corrected } from './skew';
import { fromAnswer, fromSpans } from './outline';
import { layersOf } from './layers';
import { BANDS_MAX, bandAt, bandRange, bandsOf, bandWords, detailsOf, hasOwn, occurring, OWN_KINDS, ownOf, sumsOf, sumWords, totalOf, wordsOf } from './own';
import { outlineOf, spanOf } from './testing';
import { arrange } from './tree';

const tag = (key: string, value: Tag['value']): Tag => ({ key, value, type: typeof value, origin: 'span' });
const kindOf = (key: string) => OWN_KINDS.findIndex((kind) => kind.key === key);
const named = (sums: ArrayLike<number>) => Object.fromEntries(occurring(sums).map((kind) => [OWN_KINDS[kind].key, sums[kind]]));

describe('ownOf', () => {
  it('reads integers, and integers as text', () => {
    const own = ownOf([tag('blkkin.own.running', 20), tag('blkkin.own.disk', '30'), tag('http.method', 'GET'), tag('blkkin.own.bands', 'running 0 20;disk 20 30 vda'), tag('blkkin.disk.vda.queued', 4), tag('blkkin.disk.vda.served', '25')], 50);
    expect(named(own?.sums ?? [])).toEqual({ running: 20, disk: 30 });
    expect(own?.bands).toEqual([{ kind: kindOf('running'), start: 0, duration: 20, detail: '' }, { kind: kindOf('disk'), start: 20, duration: 30, detail: 'vda' }]);
    expect(own?.disks).toEqual([{ name: 'vda', queued: 4, served: 25 }]);
    // Other tags remain in the list of tags.
    expect([...(own?.keys ?? [])]).not.toContain('http.method');
    expect(own?.keys.size).toBe(5);
  });

  it('ignores values of another form, which remain tags', () => {
    const wrong = [tag('blkkin.own.running', -1), tag('blkkin.own.disk', '1.5'), tag('blkkin.own.lock', 'Infinity'), tag('blkkin.own.sleep', true), tag('blkkin.own.poll', Number.NaN), tag('blkkin.own.__proto__', 3), tag('blkkin.own.', 1), tag('blkkin.own.bands', 'walking 0 1'), tag('blkkin.disk..queued', 1), tag('blkkin.disk.vda.lost', 1), tag('blkkin.own.fault', '1'.repeat(30))];
    expect(ownOf(wrong, 50)).toBe(null);
    expect(ownOf([], 50)).toBe(null);
  });

  it('takes the first of equal keys, and a limited number of disks', () => {
    expect(named(ownOf([tag('blkkin.own.lock', 1), tag('blkkin.own.lock', 2)], 50)?.sums ?? [])).toEqual({ lock: 1 });
    const disks = Array.from({ length: 1000 }, (_, at) => tag(`blkkin.disk.d${at}.queued`, at));
    const own = ownOf(disks, 50);
    expect(own?.disks.length).toBe(100);
    expect(own && detailsOf(own, kindOf('disk')).slice(-2)).toEqual(['d92: queued 92 ns, served 0 ns', 'and 92 more']);
    expect(ownOf([tag('blkkin.disk.__proto__.queued', 5)], 50)?.disks).toEqual([{ name: '__proto__', queued: 5, served: 0 }]);
  });
});

describe('bandsOf', () => {
  const brief = (text: unknown, spanNs = 100) => bandsOf(text, spanNs).map((band) => [OWN_KINDS[band.kind].key, band.start, band.duration, band.detail].join(' ').trim()).join(';');

  it('keeps details of the kinds that have them', () => {
    expect(brief('disk 0 1 dm-0;lock 1 1 77;other 2 1 flock;running 3 1 x;lock 4 1 0;lock 5 1 <b>')).toBe('disk 0 1 dm-0;lock 1 1 77;other 2 1 flock;running 3 1;lock 4 1;lock 5 1');
    expect(bandsOf(`disk 0 1 ${'x'.repeat(900)}`, 100)[0].detail.length).toBe(64);
  });

  it('omits what is malformed or overlaps, and cuts what ends after the span', () => {
    expect(brief('running 0 10;;x;disk 5 10;disk 10;disk -1 4;disk 1e1 4;lock 10 0;lock 10 5')).toBe('running 0 10;lock 10 5');
    expect(brief('running 90 10000;disk 100 1;disk 5000 1')).toBe('running 90 10');
    expect(brief('running 90 10000', Number.NaN)).toBe('running 90 10000');
    expect([brief(7), brief(null), brief(''), brief('x'.repeat(40_000))]).toEqual(['', '', '', '']);
  });

  it('reads no more bands than senders write', () => {
    const text = Array.from({ length: 400 }, (_, at) => `running ${at} 1`).join(';');
    expect(bandsOf(text, 1000).length).toBe(BANDS_MAX);
  });
});

describe('a request', () => {
  const spans = [
    { ...spanOf('c', 'a', 50, 30, 'osd'), tags: [tag('blkkin.own.disk', 30), tag('blkkin.own.bands', 'disk 0 30 sdb')] },
    { ...spanOf('a', '', 0, 100, 'guest'), tags: [tag('blkkin.own.running', '60'), tag('blkkin.own.lock', '10'), tag('blkkin.own.bands', 'running 0 40;lock 40 10 9;running 80 20')] },
    { ...spanOf('b', 'a', 10, 20, 'guest'), tags: [tag('blkkin.own.running', 5)] },
    { ...spanOf('d', 'a', 90, 5, 'osd'), tags: [tag('blkkin.disk.sdb.queued', 1)] },
  ];
  const tree = arrange(fromSpans('1', spans));

  it('has the sums of its spans, also where rows were sorted', () => {
    expect(tree.parents).toEqual(Int32Array.of(-1, 0, 0, 0));
    expect([0, 1, 2, 3].map((row) => named(sumsOf(tree, row)))).toEqual([{ running: 60, lock: 10 }, { running: 5 }, { disk: 30 }, {}]);
    expect([0, 1, 2, 3].map((row) => hasOwn(tree, row))).toEqual([true, true, true, false]);
    const total = totalOf(tree);
    expect([named(total.sums), total.spans]).toEqual([{ running: 65, lock: 10, disk: 30 }, 3]);
    expect(sumWords(total.sums)).toBe('running 65 ns, disk 30 ns, lock 10 ns');
  });

  it('has sums by service', () => {
    const { lanes } = layersOf(tree);
    expect(lanes.map((lane) => [lane.service, named(lane.own), lane.ownSpans, lane.spans])).toEqual([['guest', { running: 65, lock: 10 }, 2, 2], ['osd', { disk: 30 }, 1, 2]]);
  });

  it('finds bands by time, and describes them', () => {
    expect([0, 1, 2, 3].map((row) => bandRange(tree, row)).map(([first, end]) => end - first)).toEqual([3, 0, 1, 0]);
    const at = (row: number, ns: number) => bandAt(tree, row, ns);
    expect(at(0, 45)).toBe(at(0, 40));
    expect([at(0, 60), at(0, -1), at(0, 100), at(1, 3)]).toEqual([-1, -1, -1, -1]);
    expect(bandWords(tree.own, at(0, 45))).toBe('Waiting for a lock, released by thread 9: 10 ns, from 40 ns after the span’s start');
    expect(bandWords(tree.own, at(2, 0))).toBe('Waiting for the disk sdb: 30 ns, from 0 ns after the span’s start');
    expect(OWN_KINDS.every((_, kind) => wordsOf(kind, '') !== '')).toBe(true);
  });

  it('keeps own time when clocks are corrected', () => {
    expect(arrange(corrected(tree)).own).toBe(tree.own);
  });
});

describe('the server’s answer', () => {
  it('has values by row', () => {
    const tree = arrange(fromAnswer({ ...outlineOf(), own: { rows: [0, 1, 1], keys: ['running', 'disk', 'bands'], values: [40, '50', 'disk 0 50 vda'], more: 2 } }));
    expect([0, 1, 2].map((row) => named(sumsOf(tree, row)))).toEqual([{ running: 40 }, { disk: 50 }, {}]);
    expect([tree.own.more, tree.own.words]).toEqual([2, ['vda']]);
  });

  it('may have none, or be malformed', () => {
    expect(fromAnswer(outlineOf()).owns).toEqual(Int32Array.of(-1, -1, -1));
    const hostile = [7, null, { rows: 5 }, { rows: [0], keys: [], values: [1] }, { rows: [-1, 9, 0.5, '0'], keys: ['running', 'running', 'running', 'running'], values: [1, 1, 1, 1], more: 'x' }, { rows: [0], keys: [null], values: [{}] }];
    for (const own of hostile) {
      const columns = fromAnswer({ ...outlineOf(), own } as never);
      expect([columns.owns, columns.own.more], JSON.stringify(own)).toEqual([Int32Array.of(-1, -1, -1), 0]);
    }
  });
});

it('tells disks, threads and system calls', () => {
  const own = ownOf([tag('blkkin.own.lock', 10), tag('blkkin.own.other', 5), tag('blkkin.own.bands', 'lock 0 1 7;lock 1 4 8;lock 5 2 7;lock 8 1 9;lock 9 1 10;other 20 5 flock'), tag('blkkin.disk.vda.queued', 2000), tag('blkkin.disk.vda.served', 3000)], 100);
  if (own === null) throw new Error('it has own time');
  expect(detailsOf(own, kindOf('lock'))).toEqual(['released by thread 8: 4 ns', 'released by thread 7: 3 ns', 'released by thread 9: 1 ns', 'and 1 more']);
  expect(detailsOf(own, kindOf('other'))).toEqual(['in flock: 5 ns']);
  expect(detailsOf(own, kindOf('disk'))).toEqual(['vda: queued 2.00 µs, served 3.00 µs']);
  expect(detailsOf(own, kindOf('running'))).toEqual([]);
});
