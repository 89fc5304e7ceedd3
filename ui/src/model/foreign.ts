// Converts spans from the JSON of OpenTelemetry (OTLP) and Jaeger: attributes become tags, events and logs become
// annotations, those with attributes as `"name": {json}`. Start at readOtlp() and readJaeger().

import type { Span, Tag } from '../api';
import { id, isObject, type Json, length, list, plain, text, time, traceId } from './files';
import { KINDS, Malformed } from './outline';

/** Indexed by the number in OTLP. */
const OTLP_KINDS = ['internal', 'internal', 'server', 'client', 'producer', 'consumer'];

type Value = string | number | boolean;

export function readOtlp(parts: Json[]): Span[] {
  const spans: Span[] = [];
  for (const group of parts.flatMap((part) => [...list(part.resourceSpans), ...list(part.batches)]).filter(isObject)) {
    const resource = attributes(isObject(group.resource) ? group.resource.attributes : undefined);
    const service = resource.find(([key]) => key === 'service.name')?.[1];
    const tags = resource.map(([key, value]) => tag(key, value, 'resource'));
    for (const scoped of [...list(group.scopeSpans), ...list(group.instrumentationLibrarySpans)].filter(isObject)) {
      const scope = isObject(scoped.scope) ? scoped.scope : isObject(scoped.instrumentationLibrary) ? scoped.instrumentationLibrary : {};
      const named = (['name', 'version'] as const).flatMap((name) => (text(scope[name]) ? [tag(`otel.scope.${name}`, text(scope[name]) as string, 'scope')] : []));
      for (const value of list(scoped.spans)) {
        if (!isObject(value)) throw new Malformed(`span ${spans.length} is not an object`);
        spans.push(otlpSpan(value, spans.length, service === undefined ? undefined : String(service), [...tags, ...named]));
      }
    }
  }
  return spans;
}

/** Returns the name of an enumeration's value that is given as a number or a name, such as 2 or `SPAN_KIND_SERVER`. */
function word(value: unknown, prefix: string, words: string[]): string | undefined {
  if (typeof value === 'number') return words[value];
  const name = text(value)?.replace(prefix, '').toLowerCase();
  return words.find((each) => each === name);
}

function otlpSpan(json: Json, at: number, service: string | undefined, common: Tag[]): Span {
  const own = attributes(json.attributes);
  const [start, end] = [time(json.startTimeUnixNano, 1n), time(json.endTimeUnixNano, 1n)];
  const status = isObject(json.status) ? json.status : {};
  const state = word(status.code, 'STATUS_CODE_', ['unset', 'ok', 'error']);
  const message = text(status.message);
  const links = list(json.links).filter(isObject);
  return {
    traceId: traceId(fromBase64(json.traceId, 16), at),
    id: id(fromBase64(json.spanId, 8), at),
    parentId: json.parentSpanId === undefined || json.parentSpanId === '' ? undefined : id(fromBase64(json.parentSpanId, 8), at),
    kind: word(json.kind, 'SPAN_KIND_', OTLP_KINDS),
    status: state === 'unset' ? undefined : state,
    isError: state === 'error' || own.some(([key, value]) => key === 'error' && value !== false),
    name: text(json.name),
    startNs: start === '0' ? undefined : start,
    durationNs: start === undefined || end === undefined || BigInt(end) < BigInt(start) ? undefined : Number(BigInt(end) - BigInt(start)),
    local: service === undefined ? undefined : { service },
    annotations: list(json.events)
      .filter(isObject)
      .map((event) => ({ timeNs: time(event.timeUnixNano, 1n) ?? '', value: described(text(event.name) ?? '', attributes(event.attributes)) })),
    tags: [
      ...common,
      ...own.map(([key, value]) => tag(key, value, 'span')),
      ...(state === 'error' && message && !own.some(([key]) => key === 'error') ? [tag('error', message, 'span')] : []),
      ...links.map((link, number) => linkTag(number, fromBase64(link.traceId, 16), fromBase64(link.spanId, 8), attributes(link.attributes))),
    ],
  };
}

export function readJaeger(traces: Json[]): Span[] {
  const spans: Span[] = [];
  for (const trace of traces) {
    const processes = isObject(trace.processes) ? trace.processes : {};
    for (const value of list(trace.spans)) {
      if (!isObject(value)) throw new Malformed(`span ${spans.length} is not an object`);
      const key = text(value.processID) ?? '';
      const process = Object.hasOwn(processes, key) && isObject(processes[key]) ? processes[key] : {};
      spans.push(jaegerSpan(value, spans.length, isObject(value.process) ? value.process : process));
    }
  }
  return spans;
}

function jaegerSpan(json: Json, at: number, process: Json): Span {
  const own = fields(json.tags);
  const of = (key: string): Value | undefined => own.find(([name]) => name === key)?.[1];
  const trace = traceId(json.traceID, at);
  const references = list(json.references).filter(isObject);
  const isHere = (reference: Json) => text(reference.traceID) === undefined || traceId(reference.traceID, at) === trace;
  const parent = references.find((each) => each.refType === 'CHILD_OF' && isHere(each)) ?? references.find(isHere);
  const parentId = parent?.spanID ?? json.parentSpanID;
  const kind = String(of('span.kind') ?? '');
  return {
    traceId: trace,
    id: id(json.spanID, at),
    parentId: parentId === undefined || parentId === '' || /^0+$/.test(String(parentId)) ? undefined : id(parentId, at),
    kind: KINDS.includes(kind) ? kind : undefined,
    isError: of('error') === true || of('error') === 'true' || of('otel.status_code') === 'ERROR',
    name: text(json.operationName),
    startNs: time(json.startTime, 1000n),
    durationNs: length(json.duration, 1000),
    local: { service: text(process.serviceName) },
    annotations: list(json.logs)
      .filter(isObject)
      .map((log) => {
        const all = fields(log.fields);
        const named = all.find(([key]) => key === 'event') ?? all.find(([key]) => key === 'message');
        const rest = all.filter((field) => field !== named);
        return { timeNs: time(log.timestamp, 1000n) ?? '', value: described(String(named?.[1] ?? 'log'), rest) };
      }),
    tags: [
      ...fields(process.tags).map(([key, value]) => tag(key, value, 'resource')),
      ...own.filter(([key]) => key !== 'span.kind').map(([key, value]) => tag(key, value, 'span')),
      ...references.filter((each) => each !== parent).map((each, number) => linkTag(number, each.traceID, each.spanID, [['reference', text(each.refType) ?? '']])),
    ],
  };
}

function tag(key: string, value: Value, origin: string): Tag {
  const type = typeof value === 'number' ? (Number.isInteger(value) ? 'int' : 'double') : typeof value === 'boolean' ? 'bool' : 'string';
  return { key, value, type, origin };
}

function linkTag(number: number, trace: unknown, span: unknown, pairs: [string, Value][]): Tag {
  const hex = (value: unknown, digits: number) => (text(value) ?? '').toLowerCase().padStart(digits, '0');
  return tag(`otlp.link.${number}`, `${hex(trace, 32)}|${hex(span, 16)}||${JSON.stringify(Object.fromEntries(pairs))}|0`, 'span');
}

const described = (name: string, pairs: [string, Value][]): string =>
  pairs.length === 0 ? name : `${JSON.stringify(name)}: ${JSON.stringify(Object.fromEntries(pairs))}`;

/** Reads OpenTelemetry's attributes. Nested lists and maps become JSON. */
function attributes(value: unknown): [string, Value][] {
  return list(value)
    .filter(isObject)
    .map((pair) => {
      const inner = anyValue(pair.value);
      return [text(pair.key) ?? '', typeof inner === 'object' ? JSON.stringify(inner) : (inner as Value)];
    });
}

function anyValue(value: unknown): unknown {
  if (!isObject(value)) return '';
  if (typeof value.stringValue === 'string' || typeof value.boolValue === 'boolean') return value.stringValue ?? value.boolValue;
  if (value.intValue !== undefined) return Number.isSafeInteger(Number(value.intValue)) ? Number(value.intValue) : String(value.intValue);
  if (value.doubleValue !== undefined) return Number(value.doubleValue);
  if (isObject(value.arrayValue)) return list(value.arrayValue.values).map(anyValue);
  if (isObject(value.kvlistValue)) return Object.fromEntries(list(value.kvlistValue.values).filter(isObject).map((pair) => [text(pair.key) ?? '', anyValue(pair.value)]));
  return text(value.bytesValue) ?? '';
}

/** Reads Jaeger's tags and log fields. */
const fields = (value: unknown): [string, Value][] =>
  list(value)
    .filter(isObject)
    .map((field) => [text(field.key) ?? '', plain(field.value)]);

/** Converts ids in base64, as protobuf's JSON mapping writes them, to hexadecimal; returns other values unchanged. */
function fromBase64(value: unknown, bytes: number): unknown {
  const given = text(value);
  if (given === undefined || given.length !== Math.ceil(bytes / 3) * 4 || !given.endsWith('=')) return value;
  try {
    return [...atob(given)].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('');
  } catch {
    return value;
  }
}
