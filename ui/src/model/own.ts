// Own time of spans by kind: running on a processor, or waiting and for what. It is in tags, which are untrusted:
// values of another form are ignored. Start at ownOf() for one span and at OwnColumns for a request.

import type { OwnAnswer, Tag } from '../api';
import { duration } from '../format';

export interface Kind {
  /** As in tags. */
  key: string;
  name: string;
  /** What the span did, as the beginning of a sentence. */
  words: string;
  /** Words around a difference, as in “wait 4 ms more for a lock”. */
  verb: string;
  object: string;
}

/** Kinds in the order of tags, tables and legends. */
export const OWN_KINDS: readonly Kind[] = [
  { key: 'running', name: 'running', words: 'Running on a processor', verb: 'run', object: 'on a processor' },
  { key: 'runnable', name: 'runnable', words: 'Waiting for a processor', verb: 'wait', object: 'for a processor' },
  { key: 'disk', name: 'disk', words: 'Waiting for a disk', verb: 'wait', object: 'for disks' },
  { key: 'lock', name: 'lock', words: 'Waiting for a lock', verb: 'wait', object: 'for a lock' },
  { key: 'network', name: 'network', words: 'Waiting for the network', verb: 'wait', object: 'for the network' },
  { key: 'sleep', name: 'sleep', words: 'Sleeping', verb: 'sleep', object: '' },
  { key: 'fault', name: 'page fault', words: 'In a page fault', verb: 'wait', object: 'for page faults' },
  { key: 'poll', name: 'poll', words: 'Waiting for descriptors (poll)', verb: 'wait', object: 'for descriptors (poll)' },
  { key: 'other', name: 'other wait', words: 'Waiting for something else', verb: 'wait', object: 'for something else than processors, disks, locks and the network' },
  { key: 'elsewhere', name: 'elsewhere', words: 'No thread worked for it: queued in the program, or awaiting an answer', verb: 'spend', object: 'while no thread works for them' },
  { key: 'unknown', name: 'unknown', words: 'Not recorded', verb: 'spend', object: 'on what was not recorded' },
];

const PLACES = new Map(OWN_KINDS.map((kind, place) => [kind.key, place]));
export const DISK = PLACES.get('disk') ?? -1;
const LOCK = PLACES.get('lock') ?? -1;
const OTHER = PLACES.get('other') ?? -1;

/** Prefixes of the keys of tags, as senders write them. */
export const OWN_PREFIX = 'blkkin.own.';
export const DISK_PREFIX = 'blkkin.disk.';

/** Maximum numbers of bands and disks of a span, as senders write them. */
export const BANDS_MAX = 256;
const DISKS_MAX = 100;
const DETAIL_MAX = 64;
const TEXT_MAX = 32_768;

/** An interval of a span in which it had one kind of own time. */
export interface Band {
  /** Index into OWN_KINDS. */
  kind: number;
  /** Nanoseconds since the span's start. */
  start: number;
  duration: number;
  /** Disk, thread that released the lock, or system call; empty if unknown. */
  detail: string;
}

export interface Disk {
  name: string;
  /** Nanoseconds in which requests waited for the disk, and in which it carried them out. */
  queued: number;
  served: number;
}

export interface OwnTime {
  /** Nanoseconds by kind. */
  sums: Float64Array;
  bands: Band[];
  disks: Disk[];
  /** Keys of the tags that are contained here. */
  keys: Set<string>;
}

/** Parses a number of nanoseconds; null for any other value. */
function nanosecondsOf(value: unknown): number | null {
  if (typeof value === 'string') return /^\d{1,19}$/.test(value) ? Number(value) : null;
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.floor(value) : null;
}

/** Parses the text of bands. Bands that are malformed or overlap an earlier one are omitted; those that end after the
 * span are cut, since senders may round durations. `spanNs` is NaN if the span's duration is unknown. */
export function bandsOf(text: unknown, spanNs: number): Band[] {
  if (typeof text !== 'string' || text.length > TEXT_MAX) return [];
  const bands: Band[] = [];
  const limit = Number.isNaN(spanNs) ? Number.POSITIVE_INFINITY : spanNs;
  let last = 0;
  for (const part of text.split(';', BANDS_MAX)) {
    const found = /^([a-z]{1,16}) (\d{1,19}) (\d{1,19})(?: (.*))?$/.exec(part);
    const kind = PLACES.get(found?.[1] ?? '');
    if (found === null || kind === undefined) continue;
    const start = Number(found[2]);
    const end = Math.min(start + Number(found[3]), limit);
    if (start < last || end <= start) continue;
    last = end;
    bands.push({ kind, start, duration: end - start, detail: detailOf(kind, found[4] ?? '') });
  }
  return bands;
}

/** Returns the detail of a band; empty if it has none. Thread 0 is an unknown thread. */
function detailOf(kind: number, text: string): string {
  if (kind === LOCK) return /^[1-9]\d{0,9}$/.test(text) ? text : '';
  return kind === DISK || kind === OTHER ? text.slice(0, DETAIL_MAX) : '';
}

/** Returns the own time that a span's tags contain; null if they contain none. */
export function ownOf(tags: Tag[], spanNs: number): OwnTime | null {
  const own: OwnTime = { sums: new Float64Array(OWN_KINDS.length), bands: [], disks: [], keys: new Set() };
  const disks = new Map<string, Disk>();
  for (const { key, value } of tags) {
    if (own.keys.has(key) || !(addOwn(own, key, value, spanNs) || addDisk(disks, key, value))) continue;
    own.keys.add(key);
  }
  own.disks = [...disks.values()];
  return own.keys.size === 0 ? null : own;
}

function addOwn(own: OwnTime, key: string, value: unknown, spanNs: number): boolean {
  if (!key.startsWith(OWN_PREFIX)) return false;
  const rest = key.slice(OWN_PREFIX.length);
  if (rest === 'bands') {
    own.bands = bandsOf(value, spanNs);
    return own.bands.length > 0;
  }
  const [kind, ns] = [PLACES.get(rest), nanosecondsOf(value)];
  if (kind === undefined || ns === null) return false;
  own.sums[kind] = ns;
  return true;
}

function addDisk(disks: Map<string, Disk>, key: string, value: unknown): boolean {
  const found = /^blkkin\.disk\.(.{1,64})\.(queued|served)$/.exec(key);
  const ns = nanosecondsOf(value);
  if (found === null || ns === null) return false;
  const [, name, what] = found;
  const disk = disks.get(name) ?? { name, queued: 0, served: 0 };
  if (!disks.has(name) && disks.size >= DISKS_MAX) return false;
  disk[what as 'queued' | 'served'] = ns;
  disks.set(name, disk);
  return true;
}

/** Own time of a request's spans as arrays, so that a worker can transfer them. An entry is a span with own time. */
export interface Own {
  /** Nanoseconds of each entry by kind: OWN_KINDS.length elements per entry. */
  sums: Float64Array;
  /** Index of each entry's first band; one more element ends the last entry. */
  firsts: Uint32Array;
  kinds: Uint8Array;
  /** Nanoseconds since the span's start. */
  starts: Float64Array;
  durations: Float64Array;
  /** Index into `words`, or -1. */
  details: Int32Array;
  words: string[];
  /** Number of values that the server left out. */
  more: number;
}

/** Collects entries, in any order of rows. */
export class OwnColumns {
  readonly #sums: Float64Array[] = [];
  readonly #firsts: number[] = [0];
  readonly #bands: Band[] = [];
  readonly #words = new Map<string, number>();

  /** Adds a span's own time as an entry, and returns its index; -1 without sums. */
  add(own: OwnTime | null): number {
    if (own === null || whole(own.sums) === 0) return -1;
    this.#sums.push(own.sums);
    for (const band of own.bands) this.#bands.push(band);
    this.#firsts.push(this.#bands.length);
    return this.#sums.length - 1;
  }

  done(more = 0): Own {
    const sums = new Float64Array(this.#sums.length * OWN_KINDS.length);
    for (const [entry, each] of this.#sums.entries()) sums.set(each, entry * OWN_KINDS.length);
    return {
      sums,
      firsts: Uint32Array.from(this.#firsts),
      kinds: Uint8Array.from(this.#bands, (band) => band.kind),
      starts: Float64Array.from(this.#bands, (band) => band.start),
      durations: Float64Array.from(this.#bands, (band) => band.duration),
      details: Int32Array.from(this.#bands, (band) => this.#word(band.detail)),
      words: [...this.#words.keys()],
      more,
    };
  }

  #word(text: string): number {
    if (text === '') return -1;
    if (!this.#words.has(text)) this.#words.set(text, this.#words.size);
    return this.#words.get(text) ?? -1;
  }
}

/** Converts the server's values. Returns the entry of each row, or -1. */
export function ownFromAnswer(answer: OwnAnswer | undefined, durations: Float64Array): { owns: Int32Array; own: Own } {
  const owns = new Int32Array(durations.length).fill(-1);
  const found = new Map<number, Tag[]>();
  const length = Math.min(...[answer?.rows, answer?.keys, answer?.values].map((list) => (Array.isArray(list) ? list.length : 0)));
  for (let at = 0; at < length; at += 1) {
    const { rows, keys, values } = answer as OwnAnswer;
    const row = rows[at];
    if (!Number.isInteger(row) || row < 0 || row >= durations.length) continue;
    const tags = found.get(row) ?? [];
    tags.push({ key: `blkkin.own.${keys[at]}`, value: values[at], type: '', origin: '' });
    found.set(row, tags);
  }
  const columns = new OwnColumns();
  for (const [row, tags] of found) {
    owns[row] = columns.add(ownOf(tags, durations[row]));
  }
  const more = answer?.more;
  return { owns, own: columns.done(Number.isInteger(more) ? more : 0) };
}

interface OwnTree {
  owns: Int32Array;
  own: Own;
}

export const hasOwn = (tree: OwnTree, row: number): boolean => tree.owns[row] >= 0;

/** Returns a row's sums by kind; empty if it has no own time. */
export function sumsOf({ owns, own }: OwnTree, row: number): Float64Array {
  const entry = owns[row] ?? -1;
  return entry < 0 ? new Float64Array(0) : own.sums.subarray(entry * OWN_KINDS.length, (entry + 1) * OWN_KINDS.length);
}

/** Returns the range of a row's bands in the arrays of `own`, from the first to behind the last. */
export function bandRange({ owns, own }: OwnTree, row: number): [number, number] {
  const entry = owns[row] ?? -1;
  return entry < 0 ? [0, 0] : [own.firsts[entry], own.firsts[entry + 1]];
}

/** Returns the band of a row at a time in nanoseconds since the span's start, or -1. */
export function bandAt(tree: OwnTree, row: number, ns: number): number {
  const [first, end] = bandRange(tree, row);
  for (let band = first; band < end; band += 1) {
    if (ns >= tree.own.starts[band] && ns < tree.own.starts[band] + tree.own.durations[band]) return band;
  }
  return -1;
}

/** Returns the sums of all rows by kind, and the number of rows with own time. */
export function totalOf(tree: OwnTree): { sums: Float64Array; spans: number } {
  const sums = new Float64Array(OWN_KINDS.length);
  for (let at = 0; at < tree.own.sums.length; at += 1) sums[at % OWN_KINDS.length] += tree.own.sums[at];
  return { sums, spans: tree.own.firsts.length - 1 };
}

/** Returns the kinds with a sum above 0, in order. */
export const occurring = (sums: ArrayLike<number>): number[] => [...OWN_KINDS.keys()].filter((kind) => sums[kind] > 0);

export const whole = (sums: Float64Array): number => sums.reduce((total, ns) => total + ns, 0);

/** Describes what a span did during a band, without its time. */
export function wordsOf(kind: number, detail: string): string {
  if (detail !== '' && kind === DISK) return `Waiting for the disk ${detail}`;
  if (detail !== '' && kind === LOCK) return `Waiting for a lock, released by thread ${detail}`;
  if (detail !== '' && kind === OTHER) return `Waiting in the system call ${detail}`;
  return OWN_KINDS[kind]?.words ?? '';
}

/** Describes a band of `own`: `Waiting for the disk vda: 1.20 ms, from 300 µs after the span’s start`. */
export function bandWords(own: Own, band: number): string {
  const detail = own.details[band] < 0 ? '' : own.words[own.details[band]];
  return `${wordsOf(own.kinds[band], detail)}: ${duration(own.durations[band])}, from ${duration(own.starts[band])} after the span’s start`;
}

/** Formats sums: `running 1.20 ms, disk 3.00 ms`. */
export const sumWords = (sums: Float64Array): string => occurring(sums).map((kind) => `${OWN_KINDS[kind].name} ${duration(sums[kind])}`).join(', ');

/** Maximum numbers of threads or system calls, and of disks, in the details of a kind. Those with the most time are
 * shown. */
const DETAILS_MAX = 3;
const DISKS_SHOWN_MAX = 8;

/** Returns what is known about a kind of a span beyond its sum, one text per line of a table. */
export function detailsOf(own: OwnTime, kind: number): string[] {
  if (kind === DISK) {
    const disks = [...own.disks].sort((a, b) => b.queued + b.served - a.queued - a.served);
    return cut(disks.map((disk) => `${disk.name}: queued ${duration(disk.queued)}, served ${duration(disk.served)}`), DISKS_SHOWN_MAX);
  }
  if (kind !== LOCK && kind !== OTHER) return [];
  const sums = new Map<string, number>();
  for (const band of own.bands) if (band.kind === kind && band.detail !== '') sums.set(band.detail, (sums.get(band.detail) ?? 0) + band.duration);
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  return cut(sorted.map(([detail, ns]) => `${kind === LOCK ? `released by thread ${detail}` : `in ${detail}`}: ${duration(ns)}`), DETAILS_MAX);
}

/** Returns at most `limit` lines, and how many more there are. */
const cut = (lines: string[], limit: number): string[] => (lines.length > limit ? [...lines.slice(0, limit), `and ${lines.length - limit} more`] : lines);
