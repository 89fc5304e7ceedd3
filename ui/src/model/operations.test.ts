// Tests of grouping spans by operation.

import { expect, it } from 'vitest';
import { operationsOf } from './operations';
import { spanOf } from './testing';
import { fromSpans } from './outline';
import { arrange } from './tree';

it('counts spans and self time of each operation', () => {
  const select = (id: string, start: number) => ({ ...spanOf(id, 'a', start, 10, 'db'), name: 'select', isError: id === 'c' });
  const tree = arrange(fromSpans('1', [spanOf('a', '', 0, 100, 'shop'), select('b', 10), select('c', 30), select('d', 50)]));
  expect(operationsOf(tree)).toEqual([
    { service: 'shop', name: 'a', spans: 1, errors: 0, selfNs: 70 },
    { service: 'db', name: 'select', spans: 3, errors: 1, selfNs: 30 },
  ]);
});
