// Tests of interpreting the search box.

import { expect, it } from 'vitest';
import { meaningOf, nearest, tagsIn, traceIn } from './query';

it('knows ids of traces, however they were copied', () => {
  const id = '5af7183fb1d4cf5f0a1b2c3d4e5f6071';
  const forms = [id, id.toUpperCase(), ` ${id} `, `0x${id}`, `00-${id}-00f067aa0ba902b7-01`, `https://x/#/trace/${id}?span=1`, `http://z:9411/zipkin/traces/${id}`, `https://jaeger/trace/${id}`, `trace_id == "${id}"`, `traceId=${id}`];
  for (const form of forms) expect(meaningOf(form), form).toEqual({ what: 'trace', id, isSure: true });
  expect(traceIn('5af7183f-b1d4-cf5f-0a1b-2c3d4e5f6071')?.id).toBe(id);
  expect(traceIn('befce68a12345678')).toEqual({ id: 'befce68a12345678', isSure: true });
  expect(traceIn('1a46e')).toEqual({ id: '1a46e', isSure: false });
  for (const none of ['cafe', 'deadbeef', 'abc', '12g4', `${id}0`, 'service == "a1"']) expect(traceIn(none), none).toBeNull();
});

it('takes words for text of spans, and the rest for a filter', () => {
  expect(meaningOf('payment')).toEqual({ what: 'words', words: ['payment'], filter: 'any == "*payment*"' });
  expect(meaningOf('card  "pro*cessor x" 2.3.1')).toMatchObject({ words: ['card', 'pro*cessor x', '2.3.1'], filter: 'any == "*card*" && any == "*pro\\*cessor x*" && any == "*2.3.1*"' });
  expect(meaningOf('')).toEqual({ what: 'nothing' });
  for (const filter of ['error', 'root', '!error', 'service == "x"', 'has(pool)', 'error && root', '"open', 'duration > 5ms']) expect(meaningOf(filter), filter).toEqual({ what: 'filter', filter });
});

it('names tags in a filter', () => {
  expect(tagsIn('service == "serviec" && kind == server && error')).toEqual([]);
  expect(tagsIn('serviec == "x" || has(pool) && tag.http.method != "GET" && duration > 5ms')).toEqual(['serviec', 'pool', 'http.method']);
  expect(tagsIn('tag["k8s.io/name"] == "a" && status == ok && trace_id == "7"')).toEqual(['k8s.io/name']);
  expect(tagsIn('tag."user-agent" == "a" && trace.duration > 1s && $event.name == "x" && any == "*y*"')).toEqual(['user-agent']);
});

it('finds what is near', () => {
  const known = ['service', 'name', 'remote', 'duration'];
  expect(['serviec', 'Service', 'durration', 'nmae'].map((word) => nearest(word, known))).toEqual(['service', 'service', 'duration', 'name']);
  expect(nearest('payment', known)).toBeNull();
});
