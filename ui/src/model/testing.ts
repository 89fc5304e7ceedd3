// Builds requests for tests.

import type { OutlineAnswer, Span } from '../api';
import { fromSpans } from './outline';
import { arrange, type Tree } from './tree';

/** Times are relative to 1000 ns since 1970. */
export function spanOf(id: string, parent: string, start: number | null, duration: number | null, service = 's', kind = 'internal'): Span {
  return {
    traceId: '1',
    id: id.padStart(16, '0'),
    parentId: parent === '' ? undefined : parent.padStart(16, '0'),
    name: id,
    kind,
    startNs: start === null ? undefined : String(1000 + start),
    durationNs: duration ?? undefined,
    local: { service },
    annotations: [],
    tags: [],
  };
}

type Short = [id: string, parent: string, start: number | null, duration: number | null, service?: string, kind?: string];

export const treeOf = (spans: Short[]): Tree => arrange(fromSpans('1', spans.map((span) => spanOf(...span))));

export function outlineOf(): OutlineAnswer {
  return {
    traceId: 'a',
    startNs: '1764000000123456789',
    durationNs: 100,
    spans: 9,
    shown: 3,
    strings: ['guest', 'osd.3', 'write'],
    ids: ['00000000deadbeef', '2', '3'],
    parents: [-1, 0, 1],
    starts: [0, 10, null],
    durations: [100, 50, 20],
    services: [0, 1, 1],
    names: [2, 2, 2],
    kinds: [0, 2, 0],
    errors: [0, 1, 0],
    annotations: { rows: [1], times: [20], values: [2], more: 0 },
  };
}
