// Reads traces from files: the JSON that this page writes, Zipkin v2, OpenTelemetry (OTLP) and Jaeger. A file is
// untrusted input: it is validated, and errors are reported as text. Start at readFile().

import type { Endpoint, Span, Tag } from '../api';
import { readJaeger, readOtlp } from './foreign';
import { Malformed } from './outline';

export interface FileTrace {
  traceId: string;
  spans: Span[];
  /** Number of further traces in the file. The trace with the most spans is shown. */
  others: number;
}

export type Json = Record<string, unknown>;

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export function readFile(content: string): FileTrace {
  const spans = spansOf(parse(content));
  if (spans.length === 0) {
    throw new Malformed('it has no spans; expected JSON of BlkKin, Zipkin, OpenTelemetry (OTLP) or Jaeger');
  }
  const requests = new Map<string, Span[]>();
  for (const span of spans) {
    const known = requests.get(span.traceId);
    if (known === undefined) requests.set(span.traceId, [span]);
    else known.push(span);
  }
  const [traceId, most] = [...requests].reduce((best, each) => (each[1].length > best[1].length ? each : best));
  return { traceId, spans: most, others: requests.size - 1 };
}

/** Parses JSON, or JSON lines as OpenTelemetry's collector writes files. */
function parse(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch (error) {
    const lines = content.split('\n').filter((line) => line.trim() !== '');
    try {
      if (lines.length > 1) return lines.map((line) => JSON.parse(line) as unknown);
    } catch {
      // The lines are not JSON either: the first error is reported.
    }
    throw new Malformed(`this is not JSON: ${error instanceof Error ? error.message : ''}`);
  }
}

function spansOf(json: unknown): Span[] {
  const parts = (Array.isArray(json) ? json : [json]).filter(isObject);
  const otlp = parts.filter((part) => Array.isArray(part.resourceSpans) || Array.isArray(part.batches));
  if (otlp.length > 0) return readOtlp(otlp);
  // Jaeger's API wraps traces in `data`; a file may hold such an answer or a single trace.
  const jaeger = parts.flatMap((part) => [part, ...list(part.data).filter(isObject)]).filter((part) => isObject(part.processes));
  if (jaeger.length > 0) return readJaeger(jaeger);
  const isOwn = isObject(json) && Array.isArray(json.spans);
  // Zipkin's API returns a list of spans, or a list of such lists.
  const raw = isOwn ? list((json as Json).spans) : list(json).flat();
  const read = isOwn ? ownSpan : zipkinSpan;
  return raw.map((value, at) => {
    if (!isObject(value)) throw new Malformed(`span ${at} is not an object`);
    return read(value, at);
  });
}

export function id(value: unknown, at: number): string {
  const found = text(value);
  if (found === undefined || !/^[0-9a-fA-F]{1,16}$/.test(found)) {
    throw new Malformed(`span ${at} has no id of up to 16 hexadecimal digits`);
  }
  return found.toLowerCase().padStart(16, '0');
}

export function traceId(value: unknown, at: number): string {
  const found = text(value);
  if (found === undefined || !/^[0-9a-fA-F]{1,32}$/.test(found)) {
    throw new Malformed(`span ${at} has no traceId of up to 32 hexadecimal digits`);
  }
  return found.toLowerCase().padStart(found.length > 16 ? 32 : 16, '0');
}

/** Parses a time from digits or a number, and scales it to nanoseconds. */
export function time(value: unknown, scale: bigint): string | undefined {
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) return (BigInt(value) * scale).toString();
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) {
    return (BigInt(Math.round(value)) * scale).toString();
  }
  return undefined;
}

export const length = (value: unknown, scale: number): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value * scale : undefined;

function endpoint(value: unknown, name: string): Endpoint | undefined {
  if (!isObject(value)) return undefined;
  return {
    service: text(value[name]),
    ipv4: text(value.ipv4),
    ipv6: text(value.ipv6),
    port: length(value.port, 1),
  };
}

export function plain(value: unknown): string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : (JSON.stringify(value) ?? '');
}

function ownSpan(json: Json, at: number): Span {
  const tags = list(json.tags).filter(isObject);
  return {
    traceId: traceId(json.traceId, at),
    id: id(json.id, at),
    parentId: json.parentId === undefined ? undefined : id(json.parentId, at),
    kind: text(json.kind),
    status: text(json.status),
    isError: json.isError === true,
    shared: json.shared === true,
    debug: json.debug === true,
    name: text(json.name),
    startNs: time(json.startNs, 1n),
    durationNs: length(json.durationNs, 1),
    local: endpoint(json.local, 'service'),
    remote: endpoint(json.remote, 'service'),
    annotations: list(json.annotations)
      .filter(isObject)
      .map((note) => ({ timeNs: time(note.timeNs, 1n) ?? '', value: String(plain(note.value)) })),
    tags: tags.map(
      (tag): Tag => ({
        key: text(tag.key) ?? '',
        value: plain(tag.value),
        type: text(tag.type) ?? 'string',
        origin: text(tag.origin) ?? 'span',
      }),
    ),
  };
}

function zipkinSpan(json: Json, at: number): Span {
  const tags = Object.entries(isObject(json.tags) ? json.tags : {});
  const parent = json.parentId === undefined || json.parentId === null ? undefined : id(json.parentId, at);
  return {
    traceId: traceId(json.traceId, at),
    id: id(json.id, at),
    parentId: parent,
    kind: text(json.kind)?.toLowerCase(),
    isError: tags.some(([key]) => key === 'error'),
    shared: json.shared === true,
    debug: json.debug === true,
    name: text(json.name),
    startNs: time(json.timestamp, 1000n),
    durationNs: length(json.duration, 1000),
    local: endpoint(json.localEndpoint, 'serviceName'),
    remote: endpoint(json.remoteEndpoint, 'serviceName'),
    annotations: list(json.annotations)
      .filter(isObject)
      .map((note) => ({ timeNs: time(note.timestamp, 1000n) ?? '', value: String(plain(note.value)) })),
    tags: tags.map(([key, value]): Tag => ({ key, value: plain(value), type: 'string', origin: 'span' })),
  };
}
