// Test data: requests that cross a storage stack, in Zipkin's v2 JSON. The same seed gives the same spans.

/** Returns a pseudo-random generator of numbers from 0 to 1. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const hex = (number, digits = 16) => number.toString(16).padStart(digits, '0');

/** Returns one request: guest → nbd → composer → mapper → osd.N → its journal. Times are in microseconds. */
export function request(number, startUs, next) {
  const traceId = hex(0x5eed0000 + number);
  const spans = [];
  let ids = 0;
  const isSlowDisk = next() < 0.09;
  const isWrite = next() < 0.65;
  const fails = next() < 0.04;
  const scale = 0.6 + next() * next() * 3;
  const pool = ['rbd', 'rbd-ssd', 'backup'][Math.floor(next() * 3)];
  const span = (parent, service, name, kind, start, duration, more = {}) => {
    ids += 1;
    const made = {
      traceId,
      id: hex(number * 4096 + ids),
      ...(parent ? { parentId: parent.id } : {}),
      name,
      ...(kind ? { kind } : {}),
      timestamp: Math.round(start),
      duration: Math.max(1, Math.round(duration)),
      localEndpoint: { serviceName: service, ipv4: `10.0.0.${service.length}`, port: 6800 },
      ...more,
    };
    spans.push(made);
    return made;
  };
  const op = isWrite ? 'write' : 'read';
  const disk = (isSlowDisk ? 9000 : 260) * scale * (0.7 + next() * 0.6);
  const copies = isWrite ? 2 : 1;
  const inner = disk * (isWrite ? 1.25 : 1) + 60 * scale;
  const mapper = inner + 110 * scale;
  const composer = mapper + 95 * scale;
  const nbd = composer + 70 * scale;
  const whole = nbd + 120 * scale;
  const tags = { pool, object: `rbd_data.${hex(Math.floor(next() * 900), 6)}`, len: String(4096 * (1 + Math.floor(next() * 16))), offset: String(4096 * Math.floor(next() * 100000)) };
  let at = startUs;
  const guest = span(null, 'guest', `${op} vda`, null, at, whole, { tags: { ...tags, device: 'vda' } });
  const call = (parent, service, name, start, duration, hop) => {
    const client = span(parent, parent.localEndpoint.serviceName, `${name}`, 'CLIENT', start, duration, { remoteEndpoint: { serviceName: service } });
    return span(client, service, name, 'SERVER', start + hop, duration - 2 * hop, { tags });
  };
  at += 45 * scale;
  const server = call(guest, 'nbd', `nbd ${op}`, at, nbd, 14 * scale);
  at += 30 * scale;
  const stage = call(server, 'composer', `compose ${op}`, at, composer, 12 * scale);
  stage.annotations = [{ timestamp: Math.round(at + 20), value: 'queued' }, { timestamp: Math.round(at + 34), value: 'taken' }];
  at += 40 * scale;
  const map = call(stage, 'mapper', 'map', at, mapper, 16 * scale);
  span(map, 'mapper', 'look up', null, at + 20, 38 * scale, { tags: { cache: next() < 0.8 ? 'hit' : 'miss' } });
  at += 70 * scale;
  for (let copy = 0; copy < copies; copy += 1) {
    const osd = `osd.${1 + ((number + copy) % 2)}`;
    const isSlow = isSlowDisk && copy === 0;
    const took = copy === 0 ? inner : inner * (0.55 + next() * 0.3);
    const store = call(map, osd, `${op} object`, at + copy * 9, took, 18 * scale);
    store.tags = { ...tags, ...(isSlow ? { 'disk.state': 'degraded' } : { 'disk.state': 'ok' }) };
    if (isWrite) span(store, osd, 'journal', null, at + 40 * scale, took * 0.3, { annotations: [{ timestamp: Math.round(at + 60 * scale), value: 'synced' }] });
    span(store, osd, isWrite ? 'apply' : 'read disk', null, at + 45 * scale + (isWrite ? took * 0.32 : 0), took * 0.5, { tags: { ...(isSlow ? { retries: '3' } : {}) } });
    if (fails && copy === 0) {
      store.tags.error = 'EIO';
      store.tags.ret = '-5';
    }
  }
  return spans;
}

/** Returns requests spread over the last `spreadMs` milliseconds, with a period in which one disk is slow. */
export function requests(count, nowMs, spreadMs, seed = 7) {
  const next = random(seed);
  const all = [];
  for (let number = 0; number < count; number += 1) {
    const startUs = (nowMs - spreadMs + (spreadMs * (number + next() * 0.8)) / count) * 1000 - 50_000;
    all.push(...request(number + 1, startUs, next));
  }
  return all;
}

/** Returns one request of `count` spans: deep and wide, in many services. */
export function large(count, startUs, traceNumber = 0x1a46e) {
  const next = random(3);
  const traceId = hex(traceNumber);
  const spans = [];
  const whole = count * 4;
  const root = { traceId, id: hex(1), name: 'copy image', timestamp: startUs, duration: whole, localEndpoint: { serviceName: 'guest' } };
  spans.push(root);
  const services = ['nbd', 'composer', 'mapper', 'osd.1', 'osd.2', 'osd.3', 'osd.4', 'journal', 'gateway', 'monitor'];
  const names = ['write', 'read', 'look up', 'apply', 'flush', 'sync', 'lock', 'map'];
  const stack = [[root, startUs, startUs + whole]];
  for (let number = 2; number <= count; number += 1) {
    if (next() < 0.06) stack.length = 1;
    while (stack.length > 1 && (stack.length > 12 || next() < 0.4)) stack.pop();
    const [parent, from, to] = stack[stack.length - 1];
    const start = Math.min(stack.length === 1 ? startUs + (number / count) * whole * 0.99 : from + next() * (to - from) * 0.4, to - 1);
    const duration = Math.max(1, Math.min(to - start, stack.length === 1 ? 40 + next() * 400 : (to - start) * (0.3 + next() * 0.6)));
    const span = {
      traceId,
      id: hex(number),
      parentId: parent.id,
      name: names[Math.floor(next() * names.length)],
      ...(next() < 0.3 ? { kind: next() < 0.5 ? 'CLIENT' : 'SERVER' } : {}),
      timestamp: Math.round(start),
      duration: Math.round(duration),
      localEndpoint: { serviceName: services[Math.min(services.length - 1, Math.floor(next() * 3) + Math.min(7, stack.length))] },
      ...(next() < 0.002 ? { tags: { error: 'EIO' } } : {}),
      ...(next() < 0.05 ? { annotations: [{ timestamp: Math.round(start + duration / 2), value: 'taken' }] } : {}),
    };
    spans.push(span);
    stack.push([span, start, start + duration]);
  }
  return spans;
}

/** Sends spans in batches. */
export async function send(url, spans, part = 20_000) {
  for (let at = 0; at < spans.length; at += part) {
    const answer = await fetch(new URL('/api/v2/spans', url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(spans.slice(at, at + part)),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  }
}

/** Returns traces of a shop, one for each case that is hard to display. Times are relative to now. */
export function shop(nowMs) {
  const us = (msAgo) => Math.round((nowMs - msAgo) * 1000);
  const spans = [];
  let ids = 0x500;
  const span = (traceId, parent, service, name, startUs, durationUs, more = {}) => {
    ids += 1;
    const made = { traceId, id: hex(ids), ...(parent ? { parentId: parent.id } : {}), name, timestamp: startUs, duration: durationUs, localEndpoint: { serviceName: service }, ...more };
    spans.push(made);
    return made;
  };
  const named = {};
  // A message is consumed long after the caller has its answer: after 21 ms and 2.6 s in the quick trace, 206 ms and
  // 900 ms in the slow one.
  for (const [name, id, ms, lag] of [['quick', 'a51c01', 21, 2600], ['slow', 'a51c02', 206, 900]]) {
    named[name] = hex(0x5b0000000000 + Number.parseInt(id, 16));
    const at = us(300_000 + ms);
    const root = span(named[name], null, 'orders', 'POST /checkout', at, ms * 1000, { kind: 'SERVER', tags: { 'shop.plan': 'gold', 'http.request.header.user-agent': `curl/${name}` } });
    const pay = span(named[name], root, 'orders', 'charge', at + 1000, 9000, { kind: 'CLIENT', remoteEndpoint: { serviceName: 'postgres-pay' }, tags: { processor: `Stripe-${name}`, version: '2.3.1' } });
    const sent = span(named[name], root, 'orders', 'orders.created', at + 12_000, 500, { kind: 'PRODUCER', remoteEndpoint: { serviceName: 'kafka' } });
    span(named[name], sent, 'mailer', 'send mail', at + lag * 1000 - 30_000, 30_000, { kind: 'CONSUMER', tags: { 'otlp.link.0': `${named[name].padStart(32, '0')}|${pay.id}||{"reason":"message"}|0` } });
  }
  // A failure that passes through three spans.
  named.failed = hex(0x5b0000000003);
  let parent = null;
  for (const [at, service] of ['web', 'api', 'billing', 'card'].entries()) {
    parent = span(named.failed, parent, service, `call ${service}`, us(200_000) + at * 1000, 20_000 - at * 2000, { tags: { error: service === 'card' ? 'card processor declined' : 'upstream failed' } });
    named.origin = parent.id;
  }
  parent.annotations = [{ timestamp: us(200_000) + 9000, value: '"exception": {"exception.type":"DeclinedError","exception.message":"no funds","exception.stacktrace":"DeclinedError: no funds\\n\\tat charge (card.js:7)\\n\\tat pay (card.js:9)\\n\\tat main"}' }];
  // A deep chain that ends in a very short span, which fails.
  named.deep = hex(0x5b0000000004);
  parent = null;
  for (let at = 0; at < 120; at += 1) parent = span(named.deep, parent, `level-${at % 7}`, `step ${at}`, us(100_000) + at * 100, 30_000 - at * 200, { tags: { ...(at > 116 ? { error: at === 119 ? 'disk full' : 'not written' } : {}), ...(at === 119 ? { marker: 'bottommost' } : {}) } });
  named.bottom = parent.id;
  // A service whose clock is 3 s behind, so that its span starts long before its caller's.
  named.skewed = hex(0x5b0000000006);
  const request = span(named.skewed, null, 'portal', 'GET /stock', us(90_000), 100_000, { kind: 'SERVER' });
  const asks = span(named.skewed, request, 'portal', 'ask stock', us(90_000) + 10_000, 80_000, { kind: 'CLIENT' });
  const behind = span(named.skewed, asks, 'stock', 'count stock', us(93_000) + 10_000, 70_000, { kind: 'SERVER' });
  span(named.skewed, behind, 'stock', 'look up', us(93_000) + 20_000, 30_000);
  // A name with a character that reverses the direction of text.
  named.turned = hex(0x5b0000000007);
  span(named.turned, null, 'shell', 'run evil\u202egnp.exe', us(80_000), 3000, { tags: { 'file\u202ename': 'evil\u202egnp.exe' } });
  // A clock that is two hours ahead.
  named.future = hex(0x5b0000000005);
  span(named.future, null, 'ahead', 'from the future', us(-7_200_000), 1000);
  return { spans, named };
}

/** Returns a trace whose spans have own time, as its senders tag it. Times are relative to now. */
export function ownTimes(nowMs) {
  const traceId = hex(0x0b0000000001);
  const at = Math.round((nowMs - 30_000) * 1000);
  const span = (id, parentId, serviceName, name, startUs, duration, tags) => ({ traceId, id: hex(id), ...(parentId ? { parentId: hex(parentId) } : {}), name, timestamp: at + startUs, duration, localEndpoint: { serviceName }, tags });
  const own = (sums, bands, more = {}) => ({ ...Object.fromEntries(Object.entries(sums).map(([kind, us]) => [`blkkin.own.${kind}`, String(us * 1000)])), 'blkkin.own.bands': bands.map(([kind, start, us, detail]) => `${kind} ${start * 1000} ${us * 1000}${detail ? ` ${detail}` : ''}`).join(';'), ...more });
  const spans = [
    span(1, 0, 'shop', 'GET /cart', 0, 10_000, own({ running: 3500, lock: 1000, network: 1000, runnable: 500 }, [['running', 0, 2000], ['lock', 2000, 1000, '4711'], ['running', 7000, 1500], ['network', 8500, 1000], ['runnable', 9500, 500]], { 'http.route': '/cart' })),
    span(2, 1, 'database', 'select', 3000, 4000, own({ running: 500, disk: 3000, other: 500 }, [['running', 0, 500], ['disk', 500, 3000, 'vda'], ['other', 3500, 500, 'flock']], { 'blkkin.disk.vda.queued': '1000000', 'blkkin.disk.vda.served': '1900000' })),
    // Not recorded.
    span(3, 1, 'cache', 'get', 3000, 1000, {}),
    span(4, 1, 'worker', 'render', 3200, 2500, own({ fault: 200, sleep: 300, poll: 500, elsewhere: 900, unknown: 600 }, [['fault', 0, 200], ['sleep', 200, 300], ['poll', 500, 500], ['elsewhere', 1000, 900], ['unknown', 1900, 600]])),
    // Values of another form, and markup.
    span(5, 1, 'worker', 'hostile', 6000, 400, { 'blkkin.own.running': '<img src=x onerror=__ran()>', 'blkkin.own.disk': '100000', 'blkkin.own.bands': 'disk 0 100000 <img/src=x/onerror=__ran()>;disk 50 9;running x 5', 'blkkin.disk.<b>.queued': '7000' }),
  ];
  return { traceId, spans };
}
