// Requests in files: both forms, halves of calls, and what is no request.

import { describe, expect, it } from 'vitest';
import { readFile } from './files';
import { fromSpans, idOf } from './outline';
import { arrange } from './tree';

const zipkin = JSON.stringify([
  { traceId: 'A', id: '1', kind: 'CLIENT', name: 'get', timestamp: 1_764_000_000_000_001, duration: 100, localEndpoint: { serviceName: 'front' } },
  { traceId: 'a', id: '1', shared: true, kind: 'SERVER', name: 'get', timestamp: 1_764_000_000_000_010, duration: 80, localEndpoint: { serviceName: 'back', ipv4: '10.0.0.1' }, tags: { error: '500' } },
  { traceId: 'a', id: '2', parentId: '1', name: 'select', timestamp: 1_764_000_000_000_020, duration: 8, localEndpoint: { serviceName: 'back' }, annotations: [{ timestamp: 1_764_000_000_000_021, value: 'sent' }] },
  { traceId: 'b', id: '9', name: 'other' },
]);

describe('readFile', () => {
  it('reads Zipkin’s form, and takes the request with most spans', () => {
    const file = readFile(zipkin);
    expect([file.traceId, file.spans.length, file.others]).toEqual(['000000000000000a', 3, 1]);
    expect(file.spans[1]).toMatchObject({ startNs: '1764000000000010000', durationNs: 80_000, isError: true, local: { service: 'back' } });
    const tree = arrange(fromSpans(file.traceId, file.spans));
    // The client's half, the server's below it, and what the server did below that.
    expect([...tree.depths]).toEqual([0, 1, 2]);
    expect([...tree.kinds]).toEqual([1, 2, 0]);
    expect(idOf(tree, 2)).toBe('0000000000000002');
    expect(tree.notes.times[0]).toBe(20_000);
  });

  it('reads lists of lists', () => {
    expect(readFile(`[${zipkin}]`).spans.length).toBe(3);
  });

  it('reads its own form with all nanoseconds', () => {
    const file = readFile(
      JSON.stringify({
        traceId: 'c',
        spans: [
          {
            traceId: 'c', id: 'c', isError: true, name: 'write', startNs: '1764000000123456789', durationNs: 7,
            local: { service: 'rgw' }, annotations: [{ timeNs: '1764000000123456790', value: 'begun' }],
            tags: [{ key: 'len', value: 4096, type: 'int', origin: 'span' }],
          },
        ],
      }),
    );
    const tree = arrange(fromSpans(file.traceId, file.spans));
    expect(tree.startNs).toBe(1_764_000_000_123_456_789n);
    expect(tree.notes.times[0]).toBe(1);
    expect(file.spans[0].tags[0].value).toBe(4096);
  });

  it('says what is wrong', () => {
    expect(() => readFile('{')).toThrow('not JSON');
    expect(() => readFile('[]')).toThrow('no spans');
    expect(() => readFile('{"spans":{}}')).toThrow('no spans');
    expect(() => readFile('[1]')).toThrow('span 0 is not an object');
    expect(() => readFile('[{"traceId":"a","id":"zz"}]')).toThrow('span 0 has no id');
    expect(() => readFile('[{"id":"1"}]')).toThrow('no traceId');
    expect(() => readFile('{"spans":[null]}')).toThrow('not an object');
  });

  it('takes what is odd for not known', () => {
    const { spans } = readFile('[{"traceId":"a","id":"1","timestamp":"x","duration":-5,"name":7,"tags":{"__proto__":"a","x":{"y":1}},"annotations":[3]}]');
    expect(spans[0]).toMatchObject({ startNs: undefined, durationNs: undefined, name: undefined, annotations: [] });
    expect(spans[0].tags.find((tag) => tag.key === 'x')?.value).toBe('{"y":1}');
  });
});
