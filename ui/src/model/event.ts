// Parses OpenTelemetry's events and links, which are stored as text: an event with attributes as `"name": {json}`, a
// link as the tag `otlp.link.N` with fields separated by `|`.

import type { Span, Tag } from '../api';

export interface Event {
  name: string;
  attributes: [key: string, value: string][];
}

export interface Link {
  traceId: string;
  spanId: string;
  attributes: [key: string, value: string][];
}

const ATTRIBUTED = /^("(?:[^"\\]|\\.)*"):\s*(\{.*\})$/s;

export function eventOf(value: string): Event {
  const found = ATTRIBUTED.exec(value);
  if (found === null) return { name: value, attributes: [] };
  const attributes = entries(found[2]);
  try {
    return attributes === null ? { name: value, attributes: [] } : { name: String(JSON.parse(found[1])), attributes };
  } catch {
    return { name: value, attributes: [] };
  }
}

export const isLink = (tag: Tag): boolean => /^otlp\.link\.\d+$/.test(tag.key) && linkOf(String(tag.value)) !== null;

export function linkOf(value: string): Link | null {
  const [traceId, spanId, , ...rest] = value.split('|');
  if (!/^[0-9a-f]{32}$/i.test(traceId) || !/^[0-9a-f]{16}$/i.test(spanId ?? '')) return null;
  // The last field is the count of dropped attributes; the attributes themselves may contain `|`.
  return { traceId: traceId.toLowerCase(), spanId: spanId.toLowerCase(), attributes: entries(rest.slice(0, -1).join('|')) ?? entries(rest.join('|')) ?? [] };
}

/** Returns the error message of a failed span: type and message of its exception, else its tag `error`. */
export function errorOf(span: Span): string {
  const exception = span.annotations.map((note) => eventOf(note.value)).findLast((event) => event.name === 'exception');
  const of = (key: string) => exception?.attributes.find(([name]) => name === key)?.[1] ?? '';
  const tag = span.tags.findLast((each) => each.key === 'error');
  const words = [of('exception.type'), of('exception.message')].filter((each) => each !== '');
  if (words.length > 0) return words.join(': ');
  const text = tag === undefined ? '' : String(tag.value);
  return text === 'true' ? '' : text;
}

/** Why a trace failed: the spans in which failures began, and the number of spans that passed a failure on. */
export interface Failure {
  service: string;
  words: string;
  /** Number of failures, each counted once. */
  began: number;
  /** Failed spans that have a failed child. */
  passedOn: number;
}

/** Returns the first failure of a trace. `spans` may be all of its spans or the failed ones only. */
export function failureIn(spans: Span[]): Failure | null {
  const failed = spans.filter((span) => span.isError);
  const passing = new Set(failed.map((span) => span.parentId));
  // Both halves of a call have one id and count as one failure.
  const origins = new Map<string, Span>();
  for (const span of failed) if (!passing.has(span.id) && (!origins.has(span.id) || errorOf(span) !== '')) origins.set(span.id, span);
  const first = [...origins.values()][0] ?? failed[0];
  if (first === undefined) return null;
  return { service: first.local?.service ?? '', words: errorOf(first) || (first.name ?? ''), began: Math.max(1, origins.size), passedOn: new Set(failed.map((span) => span.id)).size - origins.size };
}

/** Parses a JSON object into pairs of text; values that are not strings stay JSON. */
function entries(json: string): [string, string][] | null {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    return Object.entries(value).map(([key, each]) => [key, typeof each === 'string' ? each : JSON.stringify(each)]);
  } catch {
    return null;
  }
}

/** Formats a JSON array or object on several lines; null for other text. */
export function pretty(text: string): string | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** Returns an http or https address that a link may point to; null for other text. */
export function webAddress(text: string): string | null {
  if (!/^https?:\/\/[^\s]+$/i.test(text)) return null;
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}
