// Tests of parsing stored events and links.

import { expect, it } from 'vitest';
import type { Span } from '../api';
import { errorOf, eventOf, failureIn, isLink, linkOf, pretty, webAddress } from './event';
import { spanOf } from './testing';

const exception = '"exception": {"exception.type":"IOError","exception.message":"no \\"space\\"","exception.stacktrace":"IOError\\n\\tat write"}';

it('tells the name of an event from its attributes', () => {
  expect(eventOf(exception)).toEqual({ name: 'exception', attributes: [['exception.type', 'IOError'], ['exception.message', 'no "space"'], ['exception.stacktrace', 'IOError\n\tat write']] });
  expect(eventOf('"a \\"b\\"": {"n":1,"l":[1,2]}')).toEqual({ name: 'a "b"', attributes: [['n', '1'], ['l', '[1,2]']] });
  for (const plain of ['sent', '', '"x": {', '"x": [1]', '{"a":1}', '"x": {"a":1} tail']) expect(eventOf(plain)).toEqual({ name: plain, attributes: [] });
});

it('reads links', () => {
  const trace = '00000000000000000000000000a51c01';
  expect(linkOf(`${trace}|5df9000000000001||{"reason":"a|b"}|0`)).toEqual({ traceId: trace, spanId: '5df9000000000001', attributes: [['reason', 'a|b']] });
  expect(linkOf(`${trace}|5df9000000000001|k=v||1`)?.attributes).toEqual([]);
  for (const none of ['', 'x|y', `${trace}|5df9`]) expect(linkOf(none)).toBeNull();
  expect(isLink({ key: 'otlp.link.0', value: '<script>', type: 'string', origin: 'span' })).toBe(false);
});

it('says why a span failed', () => {
  const span = spanOf('a', '', 0, 1);
  expect(errorOf(span)).toBe('');
  const tag = (value: string) => [{ key: 'error', value, type: 'string', origin: 'span' }];
  expect(errorOf({ ...span, tags: tag('EIO') })).toBe('EIO');
  expect(errorOf({ ...span, tags: tag('true') })).toBe('');
  expect(errorOf({ ...span, tags: tag('EIO'), annotations: [{ timeNs: '1', value: exception }] })).toBe('IOError: no "space"');
});

it('lays out JSON, and takes nothing but the web’s addresses for links', () => {
  expect(pretty('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  for (const none of ['{', '12', 'true', '']) expect(pretty(none)).toBeNull();
  expect(webAddress('https://a.example/x?y=1')).toBe('https://a.example/x?y=1');
  for (const none of ['javascript:alert(1)', 'https://', 'http://a b', 'see https://a', 'data:text/html,x', '//a']) expect(webAddress(none)).toBeNull();
});

it('counts one failure once, and tells where it began', () => {
  const span = (id: string, parentId: string | undefined, service: string, error: string): Span => ({ traceId: '1', id, parentId, isError: error !== '', local: { service }, name: `call ${service}`, annotations: [], tags: error === '' ? [] : [{ key: 'error', value: error, type: 'string', origin: 'span' }] });
  const chain = [span('a', undefined, 'web', 'upstream failed'), span('b', 'a', 'api', 'upstream failed'), span('c', 'b', 'card', 'declined'), span('d', 'b', 'log', '')];
  expect(failureIn(chain)).toEqual({ service: 'card', words: 'declined', began: 1, passedOn: 2 });
  expect(failureIn([...chain, span('e', 'a', 'mail', 'true')])).toMatchObject({ service: 'card', began: 2, passedOn: 2 });
  expect(failureIn([span('d', undefined, 'log', '')])).toBe(null);
  expect(failureIn([span('e', undefined, 'mail', 'true')])).toMatchObject({ words: 'call mail' });
  // Both halves of a call share an id.
  expect(failureIn([span('a', undefined, 'web', 'true'), span('a', undefined, 'api', 'full')])).toEqual({ service: 'api', words: 'full', began: 1, passedOn: 0 });
});
