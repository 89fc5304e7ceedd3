// Tests of reading requests from files: all four formats, halves of calls, and invalid files.

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
    // The client's half, the server's half below it, and the server's child below that.
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

  const otlp = {
    resourceSpans: [{
      resource: { attributes: [{ key: 'service.name', value: { stringValue: 'shop' } }, { key: 'pod', value: { intValue: '7' } }] },
      scopeSpans: [{
        scope: { name: 'lib', version: '1' },
        spans: [
          { traceId: '5AF7183FB1D4CF5F0A1B2C3D4E5F6071', spanId: '00f067aa0ba902b7', name: 'checkout', kind: 2, startTimeUnixNano: '1764000000123456789', endTimeUnixNano: '1764000000123457000' },
          {
            traceId: '5af7183fb1d4cf5f0a1b2c3d4e5f6071', spanId: '00f067aa0ba902b8', parentSpanId: '00f067aa0ba902b7', name: 'pay', kind: 'SPAN_KIND_CLIENT',
            startTimeUnixNano: '1764000000123456800', endTimeUnixNano: '1764000000123456900', status: { code: 2, message: 'declined' },
            attributes: [{ key: 'list', value: { arrayValue: { values: [{ boolValue: true }] } } }],
            events: [{ timeUnixNano: '1764000000123456850', name: 'exception', attributes: [{ key: 'exception.type', value: { stringValue: 'E' } }] }, { timeUnixNano: '1764000000123456851', name: 'sent' }],
            links: [{ traceId: '000000000000000000000000000000aa', spanId: '00000000000000bb' }],
          },
        ],
      }],
    }],
  };

  it('reads OpenTelemetry’s JSON, also as lines, and with ids in base64', () => {
    for (const content of [JSON.stringify(otlp), `${JSON.stringify(otlp)}\n${JSON.stringify({ resourceSpans: [] })}\n`, JSON.stringify({ batches: otlp.resourceSpans })]) {
      const file = readFile(content);
      expect(file.traceId).toBe('5af7183fb1d4cf5f0a1b2c3d4e5f6071');
      expect(file.spans[0]).toMatchObject({ name: 'checkout', kind: 'server', durationNs: 211, local: { service: 'shop' }, isError: false });
      expect(file.spans[1]).toMatchObject({ kind: 'client', parentId: '00f067aa0ba902b7', isError: true, status: 'error' });
      expect(file.spans[1].annotations.map((note) => note.value)).toEqual(['"exception": {"exception.type":"E"}', 'sent']);
      const tags = file.spans[1].tags.map(({ key, value, origin }) => `${origin} ${key}=${value}`);
      expect(tags).toEqual(['resource service.name=shop', 'resource pod=7', 'scope otel.scope.name=lib', 'scope otel.scope.version=1', 'span list=[true]', 'span error=declined', 'span otlp.link.0=000000000000000000000000000000aa|00000000000000bb||{}|0']);
    }
    const based = JSON.stringify(otlp).replaceAll(/5af7183fb1d4cf5f0a1b2c3d4e5f6071/gi, 'WvcYP7HUz18KGyw9Tl9gcQ==').replaceAll('00f067aa0ba902b8', 'APBnqgupArg=');
    expect(readFile(based)).toMatchObject({ traceId: '5af7183fb1d4cf5f0a1b2c3d4e5f6071', spans: [{}, { id: '00f067aa0ba902b8' }] });
  });

  it('reads Jaeger’s JSON', () => {
    const trace = {
      traceID: 'abc', processes: { p1: { serviceName: 'front', tags: [{ key: 'host', type: 'string', value: 'h1' }] }, p2: { serviceName: 'back' } },
      spans: [
        { traceID: 'abc', spanID: '1', operationName: 'get', references: [], startTime: 1_764_000_000_000_001, duration: 100, processID: 'p1', tags: [{ key: 'span.kind', type: 'string', value: 'server' }] },
        {
          traceID: 'abc', spanID: '2', operationName: 'select', startTime: 1_764_000_000_000_010, duration: 5, processID: 'p2', tags: [{ key: 'error', type: 'bool', value: true }, { key: 'rows', type: 'int64', value: 3 }],
          references: [{ refType: 'FOLLOWS_FROM', traceID: 'def', spanID: '9' }, { refType: 'CHILD_OF', traceID: 'abc', spanID: '1' }],
          logs: [{ timestamp: 1_764_000_000_000_012, fields: [{ key: 'event', value: 'retry' }, { key: 'times', value: 2 }] }],
        },
      ],
    };
    for (const content of [JSON.stringify({ data: [trace] }), JSON.stringify(trace), JSON.stringify([trace])]) {
      const file = readFile(content);
      expect(file.traceId).toBe('0000000000000abc');
      expect(file.spans[0]).toMatchObject({ kind: 'server', parentId: undefined, startNs: '1764000000000001000', durationNs: 100_000, local: { service: 'front' } });
      expect(file.spans[0].tags).toEqual([{ key: 'host', value: 'h1', type: 'string', origin: 'resource' }]);
      expect(file.spans[1]).toMatchObject({ parentId: '0000000000000001', isError: true, annotations: [{ timeNs: '1764000000000012000', value: '"retry": {"times":2}' }] });
      expect(file.spans[1].tags.find((tag) => tag.key === 'otlp.link.0')?.value).toBe(`${'def'.padStart(32, '0')}|${'9'.padStart(16, '0')}||{"reference":"FOLLOWS_FROM"}|0`);
    }
  });

  it('says what is wrong', () => {
    expect(() => readFile('{')).toThrow('not JSON');
    expect(() => readFile('[]')).toThrow('no spans');
    expect(() => readFile('{"spans":{}}')).toThrow('no spans');
    expect(() => readFile('[1]')).toThrow('span 0 is not an object');
    expect(() => readFile('[{"traceId":"a","id":"zz"}]')).toThrow('span 0 has no id');
    expect(() => readFile('[{"id":"1"}]')).toThrow('no traceId');
    expect(() => readFile('{"spans":[null]}')).toThrow('not an object');
    expect(() => readFile('{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"x"}]}]}]}')).toThrow('span 0 has no traceId');
    expect(() => readFile('{"data":[{"processes":{},"spans":[7]}]}')).toThrow('span 0 is not an object');
    expect(() => readFile('{"resourceSpans":[3]}')).toThrow('no spans');
  });

  it('takes what is odd for not known', () => {
    const { spans } = readFile('[{"traceId":"a","id":"1","timestamp":"x","duration":-5,"name":7,"tags":{"__proto__":"a","x":{"y":1}},"annotations":[3]}]');
    expect(spans[0]).toMatchObject({ startNs: undefined, durationNs: undefined, name: undefined, annotations: [] });
    expect(spans[0].tags.find((tag) => tag.key === 'x')?.value).toBe('{"y":1}');
  });
});
