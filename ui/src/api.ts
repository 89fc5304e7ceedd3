// Types of the server's API (docs/server-api.md) and its client. All requests to the server go through ask() or
// askBytes().

export interface ServicePart {
  service: string;
  spans: number;
  errors: number;
}

export interface Summary {
  traceId: string;
  startNs: string;
  /** Duration of the root span; the extent if that is unknown. */
  durationNs: number;
  /** Time from the first start to the last end of all spans. */
  extentNs?: number;
  service: string;
  name: string;
  spans: number;
  errors: number;
  services: ServicePart[];
}

export interface SearchAnswer {
  requests: Summary[];
  next?: string;
}

export interface Bar {
  leastNs: number;
  greatestNs: number;
  spans: number;
}

export interface LatencyAnswer {
  spans: number;
  percentilesNs: Record<string, number>;
  histogram: Bar[];
  examples: { traceId: string; id: string; durationNs: number }[];
}

export interface Link {
  parent: string;
  child: string;
  calls: number;
  errors: number;
  percentilesNs: Record<string, number>;
}

export interface LinksAnswer {
  startNs?: string;
  endNs?: string;
  /** Start times of the first and the last span in the store. */
  firstNs?: string;
  lastNs?: string;
  links: Link[];
}

export interface HeatmapAnswer {
  startNs: string;
  columnNs: number;
  columns: number;
  spans: number;
  rows: { leastNs: number; greatestNs: number }[];
  cells: [number, number, number][];
}

export interface DifferenceAnswer {
  inside: number;
  outside: number;
  /** N if only one in N of the spans outside the selection was examined; 1 if all were. */
  outsideOneIn: number;
  values: { key: string; value: string; inside: number; outside: number }[];
  /** Mean own times of the spans with known own time, the largest absolute difference first. */
  ownTime: {
    inside: number;
    outside: number;
    unknownInside: number;
    unknownOutside: number;
    times: { key: string; insideNs: number; outsideNs: number; differenceNs: number }[];
    leftOut: number;
  };
}

export interface Endpoint {
  service?: string;
  ipv4?: string;
  ipv6?: string;
  port?: number;
}

export interface Tag {
  key: string;
  value: string | number | boolean;
  type: string;
  origin: string;
}

export interface Span {
  traceId: string;
  id: string;
  parentId?: string;
  kind?: string;
  status?: string;
  isError?: boolean;
  shared?: boolean;
  debug?: boolean;
  name?: string;
  startNs?: string;
  durationNs?: number;
  local?: Endpoint;
  remote?: Endpoint;
  annotations: { timeNs: string; value: string }[];
  tags: Tag[];
}

export interface TraceAnswer {
  traceId: string;
  spans: Span[];
}

export interface FoundAnswer {
  traceId: string;
  ids: string[];
}

/** Columns of a request's spans, one row a span, parents before children. */
export interface OutlineAnswer {
  traceId: string;
  startNs: string;
  durationNs: number;
  spans: number;
  shown: number;
  strings: string[];
  ids: string[];
  parents: number[];
  starts: (number | null)[];
  durations: (number | null)[];
  services: number[];
  names: number[];
  kinds: number[];
  errors: number[];
  annotations: { rows: number[]; times: number[]; values: number[]; more: number };
  own?: OwnAnswer;
  /** Values of the tags `blkkin.clock`: `BOOT ERROR` (nanoseconds), or `unknown`. */
  clocks?: { rows: number[]; values: string[] };
}

/** Values of the tags `blkkin.own.*`, with their keys without this prefix. */
export interface OwnAnswer {
  rows: number[];
  keys: string[];
  values: (number | string)[];
  more: number;
}

export type Numbers = Record<string, number>;

export interface CountersAnswer {
  collector: Record<string, Numbers>;
  store: Numbers;
  server: Numbers;
  /** Refused or lost spans, messages and connections, by cause. Times are of the server's current run. */
  drops?: { place: string; what: string; count: number; firstNs?: string; lastNs?: string }[];
  /** Whether stored spans survive a restart of the server. */
  isDurable?: boolean;
}

export interface StatusAnswer {
  version: string;
  uptimeSeconds: number;
}

export type Params = Record<string, string | number | bigint | null | undefined>;

/** The server refused a request or could not be reached. `words` is the server's message; if `status` is 0, it is a
 * message of this client. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly words: string,
  ) {
    super(words);
  }
}

export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value.toString());
  }
  const text = query.toString();
  return `api/blkkin/v1/${path}${text === '' ? '' : `?${text}`}`;
}

/** Sends a request and returns the body as bytes. Relative addresses are relative to the page. */
export async function askBytes(url: string, token: string, signal?: AbortSignal): Promise<ArrayBuffer> {
  const headers: HeadersInit = token === '' ? {} : { authorization: `Bearer ${token}` };
  let answer: Response;
  try {
    answer = await fetch(url, { headers, signal, cache: 'no-store', credentials: 'same-origin' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Refusal(0, 'The server cannot be reached.');
  }
  if (!answer.ok) throw new Refusal(answer.status, (await answer.text()).slice(0, 4000).trim());
  return answer.arrayBuffer();
}

/** Sends a request and returns the body as text. */
export async function askText(url: string, token: string, signal?: AbortSignal): Promise<string> {
  return new TextDecoder().decode(await askBytes(url, token, signal));
}

export async function ask<T>(path: string, params: Params, token: string, signal?: AbortSignal): Promise<T> {
  const text = await askText(address(path, params), token, signal);
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Refusal(0, 'The server’s answer is not JSON.');
  }
}
