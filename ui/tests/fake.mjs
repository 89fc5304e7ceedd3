// An in-memory server with the API of blkkin server and simple filters only. It serves work on the pages without a
// build of the server (`npm run demo`), and states that are hard to produce with the real server. Tests with BLKKIN_URL
// do not use it.

import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

const DIST = join(fileURLToPath(new URL('.', import.meta.url)), '../dist');
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const HEADERS = {
  'content-security-policy':
    "default-src 'self'; style-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; " +
    "require-trusted-types-for 'script'; trusted-types svelte-trusted-html blkkin-worker",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
};
const KINDS = ['internal', 'client', 'server', 'producer', 'consumer'];

class Wrong extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

const pad = (id) => id.toLowerCase().padStart(id.length > 16 ? 32 : 16, '0').replace(/^0{16}(?=.{16}$)/, '');

function read(json) {
  const tags = Object.entries(json.tags ?? {});
  return {
    traceId: pad(json.traceId),
    id: pad(json.id),
    ...(json.parentId ? { parentId: pad(json.parentId) } : {}),
    ...(json.kind ? { kind: json.kind.toLowerCase() } : {}),
    isError: tags.some(([key]) => key === 'error'),
    name: json.name ?? '',
    ...(json.timestamp === undefined ? {} : { startNs: `${json.timestamp}000` }),
    ...(json.duration === undefined ? {} : { durationNs: json.duration * 1000 }),
    ...(json.localEndpoint ? { local: { service: json.localEndpoint.serviceName ?? '', ipv4: json.localEndpoint.ipv4, port: json.localEndpoint.port } } : {}),
    ...(json.remoteEndpoint ? { remote: { service: json.remoteEndpoint.serviceName ?? '' } } : {}),
    annotations: (json.annotations ?? []).map((note) => ({ timeNs: `${note.timestamp}000`, value: note.value })),
    tags: tags.map(([key, value]) => ({ key, value, type: 'string', origin: 'span' })),
  };
}

function percentiles(sorted) {
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const shares = { 50: 0.5, 75: 0.75, 90: 0.9, 95: 0.95, 99: 0.99, 99.9: 0.999, 100: 1 };
  return sorted.length === 0 ? {} : Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, at(share)]));
}

const SCALES = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };

/** Parses simple conditions joined by `&&`. */
function filterOf(text, summaryOf) {
  // Brackets around all but the last condition are redundant.
  const parts = text.replace(/^\((.*)\) && error$/s, '$1 && error').split('&&').map((part) => part.trim()).filter((part) => part !== '');
  const tests = parts.map((part) => {
    if (part === 'error') return (span) => span.isError;
    if (part === 'root') return (span) => span.parentId === undefined;
    const whole = /^trace\.duration\s*(>=|>|<=|<)\s*([\d.]+)(ns|us|ms|s)?$/.exec(part);
    if (whole && summaryOf) {
      const limit = Number(whole[2]) * (SCALES[whole[3]] ?? 1);
      const compare = { '>': (a) => a > limit, '>=': (a) => a >= limit, '<': (a) => a < limit, '<=': (a) => a <= limit }[whole[1]];
      return (span) => compare(summaryOf(span.traceId).durationNs);
    }
    const took = /^duration\s*(>=|>|<=|<)\s*([\d.]+)(ns|us|ms|s)?$/.exec(part);
    if (took) {
      const limit = Number(took[2]) * (SCALES[took[3]] ?? 1);
      const compare = { '>': (a) => a > limit, '>=': (a) => a >= limit, '<': (a) => a < limit, '<=': (a) => a <= limit }[took[1]];
      return (span) => span.durationNs !== undefined && compare(span.durationNs);
    }
    const kind = /^kind\s*==\s*(\w+)$/.exec(part);
    if (kind) return (span) => (span.kind ?? 'internal') === kind[1];
    const has = /^has\(([\w.]+)\)$/.exec(part);
    if (has) return (span) => span.tags.some((tag) => tag.key === has[1].replace(/^tag\./, ''));
    const is = /^([\w.]+(?:"[^"]*")?)\s*==\s*"((?:[^"\\]|\\.)*)"$/s.exec(part);
    if (is) {
      const stars = is[2].split(/(?<!\\)\*/).map((piece) => piece.replace(/\\n/g, '\n').replace(/\\(.)/gs, '$1').replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
      const like = new RegExp(`^${stars.join('.*')}$`, 'is');
      const key = is[1].replace(/^tag\./, '').replace(/^"(.*)"$/, '$1');
      if (key === 'any') {
        const texts = (span) => [span.local?.service, span.remote?.service, span.name, ...span.annotations.map((note) => note.value), ...span.tags.map((tag) => String(tag.value))];
        return (span) => texts(span).some((text) => text !== undefined && like.test(text));
      }
      const known = { service: (span) => span.local?.service, name: (span) => span.name, remote: (span) => span.remote?.service };
      const value = known[is[1]] ?? ((span) => span.tags.find((tag) => tag.key === key)?.value);
      return (span) => value(span) !== undefined && like.test(value(span));
    }
    throw new Wrong(400, `bad filter: unknown operator in \`${part}\`\n  ${text}\n  ${' '.repeat(Math.max(0, text.indexOf(part)))}^\nhint: did you mean \`==\`?`);
  });
  return (span) => tests.every((test) => test(span));
}

export class Store {
  traces = new Map();
  outlines = new Map();
  summaries = new Map();
  spans = 0;
  dropped = 0;

  add(list) {
    for (const json of list) {
      const span = read(json);
      this.outlines.delete(span.traceId);
      this.summaries.delete(span.traceId);
      const known = this.traces.get(span.traceId);
      if (known) known.push(span);
      else this.traces.set(span.traceId, [span]);
      this.spans += 1;
    }
  }

  summary(traceId) {
    let known = this.summaries.get(traceId);
    if (known === undefined) {
      known = this.summarize(traceId);
      this.summaries.set(traceId, known);
    }
    return known;
  }

  summarize(traceId) {
    const spans = this.traces.get(traceId);
    const timed = spans.filter((span) => span.startNs !== undefined);
    const root = spans.find((span) => span.parentId === undefined) ?? spans[0];
    const start = BigInt(root.startNs ?? timed[0]?.startNs ?? 0);
    const end = timed.reduce((last, span) => {
      const each = BigInt(span.startNs) + BigInt(span.durationNs ?? 0);
      return each > last ? each : last;
    }, start);
    const services = new Map();
    for (const span of spans) {
      const name = span.local?.service ?? '';
      const part = services.get(name) ?? { service: name, spans: 0, errors: 0 };
      part.spans += 1;
      part.errors += span.isError ? 1 : 0;
      services.set(name, part);
    }
    const first = timed.reduce((least, span) => (BigInt(span.startNs) < least ? BigInt(span.startNs) : least), start);
    return {
      traceId,
      startNs: first.toString(),
      durationNs: root.startNs === undefined ? Number(end - first) : (root.durationNs ?? Number(end - first)),
      extentNs: Number(end - first),
      service: root.local?.service ?? '',
      name: root.name,
      spans: spans.length,
      errors: spans.filter((span) => span.isError).length,
      services: [...services.values()],
    };
  }

  /** Yields the spans of the time range that match the filter. */
  *matching(params) {
    const test = filterOf(params.get('filter') ?? '', (id) => this.summary(id));
    const [start, end] = [BigInt(params.get('startNs') ?? 0), BigInt(params.get('endNs') ?? 2n ** 63n)];
    for (const spans of this.traces.values()) {
      const begin = BigInt(spans[0].startNs ?? 0);
      if (begin < start || begin > end) continue;
      for (const span of spans) if (test(span)) yield span;
    }
  }

  search(params) {
    const ids = new Set();
    for (const span of this.matching(params)) ids.add(span.traceId);
    const all = [...ids].map((id) => this.summary(id));
    const isSlowest = params.get('order') === 'slowest';
    all.sort((a, b) => (isSlowest ? b.durationNs - a.durationNs : Number(BigInt(b.startNs) - BigInt(a.startNs))));
    const from = Number((params.get('after') ?? 'n0').slice(1));
    const limit = Number(params.get('limit') ?? 20);
    const requests = all.slice(from, from + limit);
    return { requests, ...(from + limit < all.length ? { next: `n${from + limit}` } : {}) };
  }

  latency(params) {
    const spans = [...this.matching(params)].filter((span) => span.durationNs !== undefined);
    const sorted = spans.map((span) => span.durationNs).sort((a, b) => a - b);
    const bars = new Map();
    const examples = new Map();
    for (const span of spans) {
      const place = Math.floor(Math.log2(Math.max(1, span.durationNs)) * 16);
      bars.set(place, (bars.get(place) ?? 0) + 1);
      examples.set(Math.floor(place / 16), { traceId: span.traceId, id: span.id, durationNs: span.durationNs });
    }
    const histogram = [...bars].sort((a, b) => a[0] - b[0]).map(([place, count]) => ({ leastNs: Math.floor(2 ** (place / 16)), greatestNs: Math.ceil(2 ** ((place + 1) / 16)) - 1, spans: count }));
    return { spans: spans.length, percentilesNs: percentiles(sorted), histogram, examples: [...examples.values()] };
  }

  links(params) {
    const links = new Map();
    const list = [...this.matching(params)];
    const byId = new Map(list.map((span) => [span.traceId + span.id, span]));
    let [first, last] = [null, null];
    for (const span of list) {
      const start = BigInt(span.startNs ?? 0);
      if (first === null || start < first) first = start;
      if (last === null || start > last) last = start;
      const parent = byId.get(span.traceId + span.parentId)?.local?.service;
      const child = span.local?.service;
      if (parent === undefined || child === undefined || parent === child) continue;
      const link = links.get(`${parent}\0${child}`) ?? { parent, child, calls: 0, errors: 0, took: [] };
      link.calls += 1;
      link.errors += span.isError ? 1 : 0;
      link.took.push(span.durationNs);
      links.set(`${parent}\0${child}`, link);
    }
    const answer = [...links.values()].map(({ took, ...link }) => ({ ...link, percentilesNs: percentiles(took.sort((a, b) => a - b)) }));
    const known = first === null ? {} : { firstNs: String(first), lastNs: String(last) };
    return { startNs: params.get('startNs') ?? String(first ?? 0), endNs: params.get('endNs') ?? String(last ?? 0), ...known, links: answer };
  }

  fields(params) {
    const prefix = (params.get('prefix') ?? '').toLowerCase();
    const values = new Map();
    const add = (value) => value !== undefined && value !== '' && value.toLowerCase().startsWith(prefix) && values.set(value, (values.get(value) ?? 0) + 1);
    const of = params.get('of');
    for (const spans of this.traces.values()) {
      for (const span of spans) {
        if (of === 'services') add(span.local?.service);
        else if (of === 'keys') span.tags.forEach((tag) => add(tag.key));
        else if (of === 'values') span.tags.forEach((tag) => tag.key === params.get('key') && add(tag.value));
        else if (span.local?.service !== params.get('service')) continue;
        else if (of === 'names') add(span.name);
        else if (of === 'remoteServices') add(span.remote?.service);
      }
    }
    const limit = Number(params.get('limit') ?? 1000);
    const sorted = [...values].sort((a, b) => (a[0] < b[0] ? -1 : 1)).slice(0, limit);
    return { values: of === 'keys' ? sorted.map(([key, spans]) => ({ key, spans })) : sorted.map(([value]) => value) };
  }

  heatmap(params) {
    const spans = [...this.matching(params)].filter((span) => span.durationNs > 0 && span.startNs);
    const starts = spans.map((span) => BigInt(span.startNs));
    const least = starts.reduce((a, b) => (b < a ? b : a), starts[0] ?? 0n);
    const most = starts.reduce((a, b) => (b > a ? b : a), starts[0] ?? 0n);
    const begin = params.get('startNs') ? BigInt(params.get('startNs')) : least;
    const end = params.get('endNs') ? BigInt(params.get('endNs')) : most;
    const columns = Number(params.get('columns') ?? 120);
    const columnNs = Math.floor(Number(end - begin) / columns) + 1;
    const place = (ns) => Math.floor(Math.log2(ns) * 4);
    const rows = spans.map((span) => place(span.durationNs));
    const low = rows.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
    const high = rows.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
    const cells = new Map();
    for (const [at, span] of spans.entries()) {
      const column = Math.floor(Number(starts[at] - begin) / columnNs);
      const key = `${column},${place(span.durationNs) - low}`;
      cells.set(key, (cells.get(key) ?? 0) + 1);
    }
    return {
      startNs: begin.toString(),
      endNs: end.toString(),
      columnNs,
      columns,
      spans: spans.length,
      rows: spans.length === 0 ? [] : Array.from({ length: high - low + 1 }, (_, at) => ({ leastNs: Math.ceil(2 ** ((low + at) / 4)), greatestNs: Math.ceil(2 ** ((low + at + 1) / 4)) - 1 })),
      cells: [...cells].map(([key, count]) => [...key.split(',').map(Number), count]),
    };
  }

  difference(params) {
    const number = (name) => Number(params.get(name));
    const [start, end] = [BigInt(params.get('boxStartNs')), BigInt(params.get('boxEndNs'))];
    const words = new Map();
    const times = [[], []];
    let [inside, outside] = [0, 0];
    for (const span of this.matching(params)) {
      if (span.startNs === undefined || span.durationNs === undefined) continue;
      const at = BigInt(span.startNs);
      const isIn = at >= start && at <= end && span.durationNs >= number('boxLeastNs') && span.durationNs <= number('boxGreatestNs');
      if (isIn) inside += 1;
      else outside += 1;
      const isOwn = (tag) => /^blkkin\.(own|disk)\./.test(tag.key);
      times[isIn ? 0 : 1].push(new Map(span.tags.filter((tag) => isOwn(tag) && /^\d+$/.test(tag.value)).map((tag) => [tag.key, Number(tag.value)])));
      const pairs = [['service', span.local?.service ?? ''], ['name', span.name], ['kind', span.kind ?? 'internal'], ...span.tags.filter((tag) => !isOwn(tag)).map((tag) => [tag.key, tag.value])];
      for (const [key, value] of pairs) {
        const word = words.get(`${key}\0${value}`) ?? { key, value, inside: 0, outside: 0 };
        word[isIn ? 'inside' : 'outside'] += 1;
        words.set(`${key}\0${value}`, word);
      }
    }
    const telling = (word) => word.inside / Math.max(1, inside) - word.outside / Math.max(1, outside);
    const values = [...words.values()].sort((a, b) => Math.abs(telling(b)) - Math.abs(telling(a))).slice(0, Number(params.get('limit') ?? 30));
    return { inside, outside, outsideOneIn: 1, values, ownTime: ownTime(times) };
  }

  trace(id, span) {
    const spans = this.traces.get(pad(id));
    if (!spans) throw new Wrong(404, `${pad(id)} not found`);
    return { traceId: pad(id), spans: span ? spans.filter((each) => each.id === span) : spans };
  }

  find(id, params) {
    const test = filterOf(params.get('filter') ?? '');
    return { traceId: pad(id), ids: this.trace(id).spans.filter(test).map((span) => span.id) };
  }

  outline(id, limit) {
    const spans = this.traces.get(pad(id));
    if (!spans) throw new Wrong(404, `${pad(id)} not found`);
    const summary = this.summary(pad(id));
    const rows = new Map(spans.map((span, row) => [span.id, row]));
    const parents = spans.map((span) => (span.parentId === undefined ? -1 : (rows.get(span.parentId) ?? -2)));
    const children = spans.map(() => []);
    const roots = [];
    for (const [row, parent] of parents.entries()) (parent < 0 ? roots : children[parent]).push(row);
    const when = (row) => Number(BigInt(spans[row].startNs ?? summary.startNs) - BigInt(summary.startNs));
    for (const list of [roots, ...children]) list.sort((a, b) => when(a) - when(b));
    // Keeps the spans nearest to the roots, then walks them.
    const kept = new Set();
    for (let level = roots; level.length > 0 && kept.size < limit; level = level.flatMap((row) => children[row])) {
      for (const row of level) if (kept.size < limit) kept.add(row);
    }
    const order = [];
    const stack = [...roots].reverse();
    while (stack.length > 0) {
      const row = stack.pop();
      if (!kept.has(row)) continue;
      order.push(row);
      for (let at = children[row].length - 1; at >= 0; at -= 1) stack.push(children[row][at]);
    }
    const places = new Map(order.map((row, place) => [row, place]));
    const strings = new Map();
    const word = (text) => {
      if (text === undefined || text === '') return -1;
      if (!strings.has(text)) strings.set(text, strings.size);
      return strings.get(text);
    };
    const notes = { rows: [], times: [], values: [], more: 0 };
    for (const [place, row] of order.entries()) {
      for (const note of spans[row].annotations) {
        notes.rows.push(place);
        notes.times.push(Number(BigInt(note.timeNs) - BigInt(summary.startNs)));
        notes.values.push(word(note.value));
      }
    }
    const own = { rows: [], keys: [], values: [], more: 0 };
    for (const [place, row] of order.entries()) {
      for (const { key, value } of spans[row].tags.filter((tag) => tag.key.startsWith('blkkin.own.'))) {
        own.rows.push(place);
        own.keys.push(key.slice(11));
        own.values.push(value);
      }
    }
    const of = (take) => order.map((row) => take(spans[row]));
    return {
      traceId: pad(id),
      startNs: summary.startNs,
      durationNs: summary.extentNs,
      spans: spans.length,
      shown: order.length,
      ids: of((span) => span.id),
      parents: order.map((row) => (parents[row] < 0 ? parents[row] : places.get(parents[row]))),
      starts: order.map((row) => (spans[row].startNs === undefined ? null : when(row))),
      durations: of((span) => span.durationNs ?? null),
      services: of((span) => word(span.local?.service)),
      names: of((span) => word(span.name)),
      kinds: of((span) => Math.max(0, KINDS.indexOf(span.kind ?? 'internal'))),
      errors: of((span) => (span.isError ? 1 : 0)),
      annotations: notes,
      ...(own.rows.length > 0 ? { own } : {}),
      strings: [...strings.keys()],
    };
  }

  counters() {
    return {
      collector: { http: { messages: 1, messagesDropped: 0, messagesTurnedAway: 0, spans: this.spans, spansDropped: this.dropped } },
      store: { accepted: this.spans, kept: this.spans, refused: 0, turnedAway: 0, lost: 0, damages: 0 },
      server: {},
      drops: this.dropped > 0 ? [{ place: 'collector.http', what: 'spansDropped', count: this.dropped, ...this.droppedIn }] : [],
      isDurable: true,
    };
  }

  own(path, params) {
    if (path === 'search') return this.search(params);
    if (path === 'latency') return this.latency(params);
    if (path === 'links') return this.links(params);
    if (path === 'fields') return this.fields(params);
    if (path === 'heatmap') return this.heatmap(params);
    if (path === 'difference') return this.difference(params);
    if (path === 'counters') return this.counters();
    if (path === 'status') return { version: '0.0.0', uptimeSeconds: 1 };
    if (path.startsWith('find/')) return this.find(path.slice(5), params);
    if (path.startsWith('trace/')) return this.trace(path.slice(6), params.get('span'));
    if (path.startsWith('outline/')) {
      // Cached, since otherwise a measurement would mostly show the time of building it.
      const key = `${pad(path.slice(8))} ${params.get('limit')}`;
      const known = this.outlines.get(pad(path.slice(8)));
      if (known?.key === key) return known.text;
      const text = JSON.stringify(this.outline(path.slice(8), Number(params.get('limit') ?? 100_000)));
      this.outlines.set(pad(path.slice(8)), { key, text });
      return text;
    }
    throw new Wrong(404, 'Not Found');
  }
}

/** Compares the own times of spans inside and outside of a selection, given as a map of each span's times by key. */
function ownTime(sides) {
  const known = sides.map((side) => side.filter((times) => [...times.keys()].some((key) => key.startsWith('blkkin.own.'))));
  const [[inside, outside], [unknownInside, unknownOutside]] = [known.map((side) => side.length), known.map((side, at) => sides[at].length - side.length)];
  const mean = (side, key) => Math.round(side.reduce((sum, times) => sum + (times.get(key) ?? 0), 0) / side.length);
  const keys = inside === 0 || outside === 0 ? [] : [...new Set(known.flat().flatMap((times) => [...times.keys()]))].sort();
  const times = keys.map((key) => {
    const [insideNs, outsideNs] = known.map((side) => mean(side, key));
    return { key, insideNs, outsideNs, differenceNs: insideNs - outsideNs };
  });
  times.sort((a, b) => Math.abs(b.differenceNs) - Math.abs(a.differenceNs));
  return { inside, outside, unknownInside, unknownOutside, times, leftOut: 0 };
}

/** Starts the server on the given port, or on any free one. */
export async function start(store = new Store(), port = 0) {
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    const say = (status, type, body) => {
      const isPacked = body.length > 2000 && /gzip/.test(request.headers['accept-encoding'] ?? '') && !url.pathname.includes('outline');
      response.writeHead(status, { ...HEADERS, 'content-type': type, ...(isPacked ? { 'content-encoding': 'gzip' } : {}) });
      response.end(isPacked ? gzipSync(body) : body);
    };
    try {
      if (request.method === 'POST' && url.pathname === '/api/v2/spans') {
        const parts = [];
        for await (const part of request) parts.push(part);
        store.add(JSON.parse(Buffer.concat(parts).toString()));
        return say(202, 'text/plain', '');
      }
      if (url.pathname.startsWith('/api/blkkin/v1/')) {
        const answer = store.own(decodeURIComponent(url.pathname.slice(15)), url.searchParams);
        return say(200, 'application/json; charset=utf-8', typeof answer === 'string' ? answer : JSON.stringify(answer));
      }
      if (url.pathname.startsWith('/zipkin')) {
        response.writeHead(302, { location: `/#/zipkin/${url.pathname.slice(8)}${url.search}` });
        return response.end();
      }
      const name = url.pathname === '/' ? 'index.html' : url.pathname.slice(1);
      const file = join(DIST, name);
      if (!/^[\w.-]+$/.test(name) || !existsSync(file)) return say(404, 'text/plain', 'Not Found');
      response.writeHead(200, { ...HEADERS, 'content-type': TYPES[extname(name)] ?? 'application/octet-stream' });
      return createReadStream(file).pipe(response);
    } catch (error) {
      return say(error.status ?? 500, 'text/plain; charset=utf-8', error.message);
    }
  });
  server.keepAliveTimeout = 600_000;
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, store, stop: () => server.close() };
}

if (process.argv.includes('--demo')) {
  const { requests, large, request, random } = await import('./data.mjs');
  const { url, store } = await start(new Store(), Number(process.env.PORT ?? 9499));
  store.add(requests(600, Date.now(), 50 * 60_000));
  store.add(large(100_000, (Date.now() - 20 * 60_000) * 1000));
  if (process.argv.includes('--million')) store.add(large(1_000_000, (Date.now() - 25 * 60_000) * 1000, 0x1a46f));
  const next = random(99);
  let number = 100_000;
  if (process.argv.includes('--flow')) setInterval(() => {
    for (let at = 0; at < 3; at += 1) store.add(request((number += 1), Date.now() * 1000 - 30_000, next));
  }, 300);
  console.log(url);
}
