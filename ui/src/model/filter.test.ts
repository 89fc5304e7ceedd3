// Tests of building filter texts.

import { describe, expect, it } from 'vitest';
import { all, condition, operators, quote, tagField, wanted } from './filter';

it('offers operators that the server takes', () => {
  expect(operators('event')).toEqual(['==', '!=']);
  expect(operators('link')).toEqual(['==', '!=']);
  expect(operators('event.retries')).toContain('>=');
});

it('quotes', () => {
  expect(quote('a"b\\c*\n')).toBe('"a\\"b\\\\c\\*\\n"');
});

it('puts conditions together', () => {
  expect(all()).toBe('');
  expect(all('', null, ' error ')).toBe('error');
  expect(all('a == 1', 'b == 2')).toBe('a == 1 && b == 2');
  expect(all('a || b', 'c')).toBe('(a || b) && c');
  expect(all('(a || b)', 'c')).toBe('(a || b) && c');
  expect(all('x == "||"', 'c')).toBe('x == "||" && c');
  // An unclosed bracket must not change the other conditions.
  expect(all('a) || (b', 'c')).toBe('(a) || (b) && c');
});

it('names what words of spans are', () => {
  expect(condition('service', 'osd.1')).toBe('service == "osd.1"');
  expect(condition('kind', 'server')).toBe('kind == server');
  expect(condition('kind', 'x || error')).toBeNull();
  expect(condition('status', 'error')).toBe('error');
  expect(condition('status', 'ok')).toBe('status == ok');
  expect(condition('status', '200')).toBeNull();
  expect(condition('disk.state', 'bad')).toBe('tag.disk.state == "bad"');
  expect(condition('a-b', 'c')).toBe('tag."a-b" == "c"');
  expect(condition('', 'c')).toBeNull();
  expect(tagField('http.request.header.user-agent')).toBe('tag."http.request.header.user-agent"');
  expect(tagField('otlp.link.0')).toBe('tag."otlp.link.0"');
  expect(tagField('a..b')).toBe('tag."a..b"');
});

describe('wanted', () => {
  const check = (text: string, what: object) => expect(wanted(text), text).toMatchObject(what);
  it('knows what may come next', () => {
    check('', { what: 'field', prefix: '' });
    check('ser', { what: 'field', prefix: 'ser', from: 0 });
    check('error && na', { what: 'field', prefix: 'na', from: 9 });
    check('!(ta', { what: 'field', prefix: 'ta' });
    check('service ', { what: 'operator', prefix: '' });
    check('service =', { what: 'operator', prefix: '=' });
    check('service == ', { what: 'value', field: 'service', isQuoted: false });
    check('service == "os', { what: 'value', field: 'service', prefix: 'os', from: 11, isQuoted: true });
    check('tag.pool == "r', { what: 'value', field: 'tag.pool' });
    check('kind == cl', { what: 'word', prefix: 'cl' });
    check('duration > 5', { what: 'word', words: ['5us', '5ms', '5s'] });
    check('service == "a" ', { what: 'join' });
    check('error ', { what: 'join' });
    check('duration > 5ms ', { what: 'join' });
  });
});
