// A request's spans as columns, the input of all drawings. Built from the server's outline or from spans in a file, and
// validated, since both are untrusted. Start at fromAnswer() and fromSpans().

import type { OutlineAnswer, Span } from '../api';
import { nanoseconds } from '../format';
import { type Own, OwnColumns, ownFromAnswer, ownOf } from './own';

/** Values of `parents` that are not rows. */
export const NO_PARENT = -1;
export const LOST_PARENT = -2;

/** Maximum number of rows that are opened from a file. */
export const ROWS_MAX = 250_000;

/** Key of the tag with the clock of a span's machine. */
export const CLOCK = 'blkkin.clock';

/** Clock of a machine, as it was measured against a relay's. */
export interface Clock {
  /** Identity of the machine's boot; empty if its clock was not measured. */
  node: string;
  /** Nanoseconds. */
  error: number;
}

/** Parses the tag with a clock; null for any other value. */
function clockOf(value: unknown): Clock | null {
  if (value === 'unknown') return { node: '', error: Number.NaN };
  const found = typeof value === 'string' ? /^([0-9a-f-]{1,36}) (\d{1,19})$/.exec(value) : null;
  return found === null ? null : { node: found[1], error: Number(found[2]) };
}

export const KINDS = ['internal', 'client', 'server', 'producer', 'consumer'];
export const CLIENT = 1;
export const SERVER = 2;
export const PRODUCER = 3;
export const CONSUMER = 4;

export interface Notes {
  rows: Uint32Array;
  /** Nanoseconds since the request began. */
  times: Float64Array;
  /** Index into `strings`. */
  values: Int32Array;
  /** Number of annotations that the server left out. */
  more: number;
}

/** Arrays with one element per row, in any order of rows. */
export interface Columns {
  traceId: string;
  startNs: bigint;
  durationNs: number;
  spans: number;
  strings: string[];
  /** Upper and lower 32 bits of each span id. */
  idsHigh: Uint32Array;
  idsLow: Uint32Array;
  parents: Int32Array;
  /** Nanoseconds since the request began; NaN if unknown. */
  starts: Float64Array;
  durations: Float64Array;
  /** Index into `strings`, or -1. */
  services: Int32Array;
  names: Int32Array;
  kinds: Uint8Array;
  errors: Uint8Array;
  notes: Notes;
  /** Index of each row's entry in `own`, or -1. */
  owns: Int32Array;
  own: Own;
  /** Clocks of the rows that tell them: those whose parent is missing or on another machine. */
  clocks: Map<number, Clock>;
}

/** The input does not have the expected form. */
export class Malformed extends Error {}

export function idOf(columns: Pick<Columns, 'idsHigh' | 'idsLow'>, row: number): string {
  const part = (value: number) => value.toString(16).padStart(8, '0');
  return part(columns.idsHigh[row]) + part(columns.idsLow[row]);
}

const number = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : Number.NaN;

/** Returns an index below `length`, or -1 for any other value. */
const index = (value: unknown, length: number): number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < length ? (value as number) : -1;

function setId(columns: Columns, row: number, id: unknown): void {
  if (typeof id !== 'string' || !/^[0-9a-fA-F]{1,16}$/.test(id)) {
    throw new Malformed(`span ${row} has no id of up to 16 hexadecimal digits`);
  }
  const text = id.padStart(16, '0');
  columns.idsHigh[row] = Number.parseInt(text.slice(0, 8), 16);
  columns.idsLow[row] = Number.parseInt(text.slice(8), 16);
}

function empty(rows: number, notes: number): Columns {
  return {
    traceId: '',
    startNs: 0n,
    durationNs: 0,
    spans: rows,
    strings: [],
    idsHigh: new Uint32Array(rows),
    idsLow: new Uint32Array(rows),
    parents: new Int32Array(rows),
    starts: new Float64Array(rows),
    durations: new Float64Array(rows),
    services: new Int32Array(rows),
    names: new Int32Array(rows),
    kinds: new Uint8Array(rows),
    errors: new Uint8Array(rows),
    notes: {
      rows: new Uint32Array(notes),
      times: new Float64Array(notes),
      values: new Int32Array(notes),
      more: 0,
    },
    owns: new Int32Array(rows).fill(-1),
    own: new OwnColumns().done(),
    clocks: new Map(),
  };
}

/** Converts the server's answer to columns. */
export function fromAnswer(answer: OutlineAnswer): Columns {
  if (typeof answer !== 'object' || answer === null || !Array.isArray(answer.ids)) {
    throw new Malformed('this is not an outline of a request');
  }
  const rows = answer.ids.length;
  const { strings, annotations } = answer;
  const same = [answer.parents, answer.starts, answer.durations, answer.services, answer.names, answer.kinds, answer.errors];
  if (same.some((column) => !Array.isArray(column) || column.length !== rows) || !Array.isArray(strings)) {
    throw new Malformed('the outline’s columns do not have the same length');
  }
  const notes = Math.min(annotations?.rows?.length ?? 0, annotations?.times?.length ?? 0, annotations?.values?.length ?? 0);
  const columns = empty(rows, notes);
  columns.traceId = String(answer.traceId);
  columns.startNs = nanoseconds(answer.startNs) ?? 0n;
  columns.durationNs = Math.max(0, number(answer.durationNs) || 0);
  columns.spans = Math.max(rows, number(answer.spans) || 0);
  columns.strings = strings.map(String);
  for (let row = 0; row < rows; row += 1) {
    setId(columns, row, answer.ids[row]);
    const parent = answer.parents[row];
    columns.parents[row] = parent === NO_PARENT || (parent >= 0 && parent < rows && parent !== row) ? parent : LOST_PARENT;
    columns.starts[row] = number(answer.starts[row]);
    columns.durations[row] = number(answer.durations[row]);
    columns.services[row] = index(answer.services[row], strings.length);
    columns.names[row] = index(answer.names[row], strings.length);
    columns.kinds[row] = answer.kinds[row];
    columns.errors[row] = answer.errors[row] ? 1 : 0;
  }
  for (let note = 0; note < notes; note += 1) {
    columns.notes.rows[note] = Math.max(0, index(annotations.rows[note], rows));
    columns.notes.times[note] = number(annotations.times[note]);
    columns.notes.values[note] = index(annotations.values[note], strings.length);
  }
  columns.notes.more = number(annotations?.more) || 0;
  for (const [at, of] of (Array.isArray(answer.clocks?.rows) ? answer.clocks.rows : []).entries()) {
    const [row, clock] = [index(of, rows), clockOf(answer.clocks?.values?.[at])];
    if (row >= 0 && clock !== null) columns.clocks.set(row, clock);
  }
  return { ...columns, ...ownFromAnswer(answer.own, columns.durations) };
}

/** Converts spans of a file to columns. */
export function fromSpans(traceId: string, all: Span[]): Columns {
  const spans = all.length > ROWS_MAX ? topmost(all, ROWS_MAX) : all;
  const noteCount = spans.reduce((sum, span) => sum + span.annotations.length, 0);
  const columns = empty(spans.length, noteCount);
  columns.traceId = traceId;
  columns.spans = all.length;
  const known = new Map<string, number>();
  const word = (text: string | undefined): number => {
    if (text === undefined || text === '') return -1;
    let at = known.get(text);
    if (at === undefined) {
      at = columns.strings.push(text) - 1;
      known.set(text, at);
    }
    return at;
  };
  const begins = spans.map((span) => nanoseconds(span.startNs)).filter((time) => time !== null);
  const start = begins.reduce((least, time) => (time < least ? time : least), begins[0] ?? 0n);
  columns.startNs = start;
  const parents = parentsOf(spans);
  const owns = new OwnColumns();
  let note = 0;
  let end = 0;
  for (const [row, span] of spans.entries()) {
    setId(columns, row, span.id);
    columns.parents[row] = parents[row];
    const begin = nanoseconds(span.startNs);
    columns.starts[row] = begin === null ? Number.NaN : Number(begin - start);
    columns.durations[row] = number(span.durationNs);
    columns.services[row] = word(span.local?.service);
    columns.names[row] = word(span.name);
    columns.kinds[row] = Math.max(0, KINDS.indexOf(span.kind ?? 'internal'));
    columns.errors[row] = span.isError ? 1 : 0;
    const clock = clockOf(span.tags.find((tag) => tag.key === CLOCK)?.value);
    if (clock !== null) columns.clocks.set(row, clock);
    columns.owns[row] = owns.add(ownOf(span.tags, columns.durations[row]));
    if (begin !== null) end = Math.max(end, columns.starts[row] + (columns.durations[row] || 0));
    for (const annotation of span.annotations) {
      const time = nanoseconds(annotation.timeNs);
      columns.notes.rows[note] = row;
      columns.notes.times[note] = time === null ? Number.NaN : Number(time - start);
      columns.notes.values[note] = word(annotation.value);
      note += 1;
    }
  }
  columns.durationNs = end;
  columns.own = owns.done();
  return columns;
}

const key = (id: string): string => id.toLowerCase().padStart(16, '0');

/** Whether a span may be the server's half of a call, which can share the id of the client's half. */
const isServers = (span: Span): boolean => span.kind === 'server' || span.shared === true;

/** Returns the row of each span's parent. */
function parentsOf(spans: Span[]): Int32Array {
  const clients = new Map<string, number>();
  const servers = new Map<string, number>();
  for (const [row, span] of spans.entries()) {
    const map = isServers(span) ? servers : clients;
    if (!map.has(key(span.id))) map.set(key(span.id), row);
  }
  return Int32Array.from(spans, (span, row) => {
    const half = clients.get(key(span.id));
    if (isServers(span) && half !== undefined) return half;
    if (span.parentId === undefined || span.parentId === '') return NO_PARENT;
    const parent = key(span.parentId);
    const [server, client] = [servers.get(parent), clients.get(parent)];
    // The parent is the half that belongs to the child's service; else the server's half, which is the inner one.
    const isClients = client !== undefined && spans[client].local?.service === span.local?.service;
    const isAlsoServers = server !== undefined && spans[server].local?.service === span.local?.service;
    const found = isClients && !isAlsoServers ? client : (server ?? client);
    return found === undefined || found === row ? LOST_PARENT : found;
  });
}

/** Returns up to `limit` spans, nearest to the roots first, so that each span's parent is kept too. */
function topmost(spans: Span[], limit: number): Span[] {
  const parents = parentsOf(spans);
  const depths = new Int32Array(spans.length).fill(-1);
  for (let row = 0; row < spans.length; row += 1) {
    const path: number[] = [];
    let at = row;
    while (at >= 0 && depths[at] < 0 && path.length <= spans.length) {
      path.push(at);
      depths[at] = 0;
      at = parents[at];
    }
    let depth = at >= 0 ? depths[at] : -1;
    for (const each of path.reverse()) {
      depth += 1;
      depths[each] = depth;
    }
  }
  const order = Array.from(spans.keys()).sort((a, b) => depths[a] - depths[b] || a - b);
  return order.slice(0, limit).map((row) => spans[row]);
}
