// Spans are data: for any content no script runs, nothing is loaded from another host, and the content security policy
// reports no violation.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { send } from './data.mjs';
import { PAYLOADS, PLAIN_COUNT } from './payloads.mjs';
import { open, setUp, tearDown } from './support.mjs';

const hex = (number) => number.toString(16).padStart(16, '0');
const TRACE = 0xbad000;
/** One request with all payloads: each as the name of a span, and all of them in one span. */
const ALL = hex(0xbadbad);

const start = Date.now() * 1000 - 60_000_000;
const SPANS = PAYLOADS.flatMap((payload, at) => {
  const traceId = hex(TRACE + at);
  const base = { traceId, timestamp: start + at * 1000, duration: 900, localEndpoint: { serviceName: payload }, annotations: [{ timestamp: start + at * 1000 + 5, value: payload }], tags: { [payload || 'x']: payload, error: payload } };
  return [
    { ...base, id: '1', name: payload },
    { ...base, id: '2', parentId: '1', kind: 'CLIENT', name: payload, remoteEndpoint: { serviceName: payload } },
    { ...base, id: '3', parentId: '2', kind: 'SERVER', name: `${payload} again`, localEndpoint: { serviceName: `${payload} two` } },
  ];
});
SPANS.push({
  traceId: ALL,
  id: hex(1),
  name: 'all',
  timestamp: start,
  duration: 90_000,
  localEndpoint: { serviceName: 'guest' },
  annotations: PAYLOADS.map((value, at) => ({ timestamp: start + at, value })),
  tags: Object.fromEntries(PAYLOADS.map((payload) => [payload, payload])),
});
for (const [at, payload] of PAYLOADS.entries()) {
  SPANS.push({ traceId: ALL, id: hex(2 + at), parentId: hex(1), name: payload, timestamp: start + at * 300, duration: 250, localEndpoint: { serviceName: payload } });
}

let server;
before(async () => {
  server = await setUp();
  await send(server.url, SPANS);
});
after(tearDown);

async function watched(path) {
  const elsewhere = [];
  const page = await open(path, {
    route: async (page) => {
      await page.addInitScript(() => {
        globalThis.__count = 0;
        globalThis.__ran = () => { globalThis.__count += 1; };
        Object.defineProperty(globalThis, 'alert', { value: globalThis.__ran });
      });
      page.on('request', (request) => { if (!request.url().startsWith(server.url) && !request.url().startsWith('blob:')) elsewhere.push(request.url()); });
    },
  });
  page.harmless = async () => {
    assert.equal(await page.evaluate(() => globalThis.__count), 0, path);
    assert.deepEqual(elsewhere, [], path);
    assert.deepEqual(await page.odd(), [], path);
    const made = await page.evaluate(() => document.querySelectorAll('main script, main iframe, main img, main object, main embed, main base, main meta, main link, main style, main marquee, main video, main b b').length);
    assert.equal(made, 0, path);
    assert.equal(await page.evaluate(() => [...document.querySelectorAll('a')].filter((link) => !/^(https?|blob):/.test(link.href)).length), 0, path);
  };
  return page;
}

test('pages with lists of all of them', async () => {
  for (const path of ['#/search?range=all', '#/map?range=all', '#/latency?range=all']) {
    const page = await watched(path);
    await page.waitForLoadState('networkidle');
    await page.waitForTimeout(500);
    const text = await page.locator('main').textContent();
    assert.ok(text.includes('__ran()') || path.includes('latency'), path);
    await page.harmless();
    await page.end();
  }
});

test('the detail of each, in both views and in the title', async () => {
  const page = await watched('#/search?range=all');
  for (let at = 0; at < PAYLOADS.length; at += 1) {
    await page.goto(`${server.url}/#/trace/${hex(TRACE + at)}?span=${hex(2)}`);
    const detail = page.getByRole('complementary', { name: 'Span' });
    await detail.getByRole('heading', { name: 'Events' }).waitFor();
    await page.keyboard.press('v');
    await page.getByRole('region', { name: 'Time inside services' }).waitFor();
  }
  await page.harmless();
  await page.end();
});

test('a request that has all of them: rows, one span with all as tags and annotations, found, in layers', async () => {
  const page = await watched(`#/trace/${ALL}?span=${hex(1)}`);
  const detail = page.getByRole('complementary', { name: 'Span' });
  await detail.getByRole('heading', { name: 'Events' }).waitFor();
  // `__proto__` in an object literal sets the prototype and is no key.
  const [tags, notes] = [detail.locator('table').nth(0).locator('td.value'), detail.locator('table').nth(1).locator('td.value')];
  assert.equal(await notes.count(), PAYLOADS.length);
  assert.ok((await tags.count()) >= PAYLOADS.length - 1, `${await tags.count()} tags`);
  const seen = new Set();
  await page.getByRole('treegrid').focus();
  await page.keyboard.press('Home');
  for (let at = 0; at < 60 && seen.size <= PAYLOADS.length; at += 1) {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    for (const id of await page.locator('[role=row][aria-level]').evaluateAll((rows) => rows.map((row) => row.id))) seen.add(id);
    await page.keyboard.press('PageDown');
  }
  // Moving by pages shows every row.
  assert.equal(seen.size, PAYLOADS.length + 1);
  await page.fill('input[type=search]', '__ran()');
  await page.keyboard.press('Enter');
  await page.getByText(/^\d+ of \d/).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('v');
  await page.getByRole('region', { name: 'Time inside services' }).waitFor();
  await page.harmless();
  await page.end();
});

test('each beside the next, compared', async () => {
  const page = await watched('#/search?range=all');
  for (let at = 0; at + 1 < PAYLOADS.length; at += 2) {
    await page.goto(`${server.url}/#/compare?a=${hex(TRACE + at)}&b=${hex(TRACE + at + 1)}`);
    await page.locator('main table tbody tr').first().waitFor();
  }
  await page.harmless();
  await page.end();
});

test('filters, ids and other parts of addresses', async () => {
  const page = await watched('#/search');
  for (const payload of PAYLOADS.slice(0, PLAIN_COUNT)) {
    const text = encodeURIComponent(payload);
    for (const path of [`search?filter=${text}`, `search?service=${text}&name=${text}&min=${text}&range=all`, `trace/${text}?find=${text}&name=${text}`, `map?service=${text}&range=all`, `latency?filter=${text}&box=${text}`, `compare?a=${text}&b=${text}`, `${text}`]) {
      await page.goto(`${server.url}/#/${path}`);
      await page.waitForTimeout(15);
    }
  }
  await page.waitForTimeout(300);
  await page.harmless();
  await page.end();
});

test('what is offered while a filter is written', async () => {
  const page = await watched('#/search?range=all');
  await page.waitForLoadState('networkidle');
  await page.keyboard.press('/');
  await page.keyboard.type('service == "');
  await page.getByRole('option').first().waitFor();
  assert.ok((await page.getByRole('option').count()) > 10);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await page.waitForTimeout(400);
  // The quoted filter finds that service.
  assert.ok((await page.locator('table.requests tbody tr').count()) > 0);
  await page.harmless();
  await page.end();
});

test('files', async () => {
  const page = await watched('#/search');
  await page.setInputFiles('input[type=file]', { name: '<img src=x onerror=__ran()>.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(SPANS.slice(3, 6))) });
  await page.getByRole('treegrid').waitFor();
  await page.keyboard.press('j');
  await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'Tags' }).waitFor();
  await page.harmless();
  await page.end();
});
