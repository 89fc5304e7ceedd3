// Behaviour of the real server only: it requires a token, is empty, refuses, stops and restarts, limits the spans of a
// large request, and accepts OpenTelemetry's attributes. Needs BLKKIN_SERVER, the path of `blkkin`.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { large, requests, send } from './data.mjs';
import { PAYLOADS } from './payloads.mjs';
import { start } from './real.mjs';
import { findings, open, PROGRAM, setUp, tearDown } from './support.mjs';

let server;
before(async () => {
  assert.ok(PROGRAM, 'BLKKIN_SERVER names no program');
  server = await setUp();
});
after(tearDown);

const rowsOf = (page) => page.locator('table.requests tbody tr');

async function clean(page) {
  assert.deepEqual(await findings(page), []);
  // A refused request is an error in the console, but not in the page.
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

test('nothing is there, until the first request comes', async () => {
  const empty = await start(PROGRAM);
  try {
    const looks = { '#/search': /^No traces in/, '#/map': /^No calls between services/, '#/latency': /^No spans with a duration/, '#/trace/77': /^Not found$/, '#/compare?a=1&b=2': /^Not found$/ };
    for (const [path, words] of Object.entries(looks)) {
      const page = await open(path, { url: empty.url });
      await page.getByRole('heading', { name: words }).first().waitFor();
      await clean(page);
    }
    const page = await open('#/search', { url: empty.url });
    await page.getByRole('heading', { name: /^No traces in/ }).waitFor();
    await send(empty.url, requests(1, Date.now(), 1000));
    await page.keyboard.press('r');
    await rowsOf(page).first().waitFor();
    await clean(page);
  } finally {
    await empty.stop();
  }
});

test('a token is asked for, and lets pages and their worker in', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'blkkin-token-'));
  const token = 'a-token-of-forty-three-letters-or-thereabouts';
  await writeFile(join(folder, 'tokens'), `${token}\n`, { mode: 0o600 });
  const guarded = await start(PROGRAM, { options: ['--token-file', join(folder, 'tokens')] });
  try {
    const spans = requests(3, Date.now(), 1000);
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const answer = await fetch(`${guarded.url}/api/v2/spans`, { method: 'POST', headers, body: JSON.stringify(spans) });
    assert.equal(answer.status, 202);
    const page = await open(`#/trace/${spans[0].traceId}`, { url: guarded.url });
    await page.getByRole('heading', { name: 'This server needs a token' }).waitFor();
    assert.deepEqual(await findings(page), []);
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('did not accept').waitFor();
    await page.getByLabel('Token').fill(token);
    await page.keyboard.press('Enter');
    await page.getByRole('treegrid').waitFor();
    await page.keyboard.press('j');
    await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'Tags' }).waitFor();
    assert.ok(!page.url().includes(token));
    await clean(page);
  } finally {
    await guarded.stop();
    await rm(folder, { recursive: true });
  }
});

test('what was refused is said in the header', async () => {
  const page = await open('#/search');
  await page.getByText(/^[\d,]+ spans$/).waitFor();
  const answer = await fetch(`${server.url}/api/v2/spans`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '[{"traceId":"0"}]' });
  assert.equal(answer.status, 400);
  await page.keyboard.press('r');
  await page.getByRole('button', { name: 'Some data was dropped' }).click();
  await page.getByText('Some data was dropped and may be missing below').waitFor();
  await clean(page);
});

test('a server that ends is missed, and what it had is there when it comes again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'blkkin-again-'));
  let own = await start(PROGRAM, { folder });
  try {
    const port = Number(new URL(own.url).port);
    await send(own.url, requests(5, Date.now(), 60_000));
    const page = await open('#/search', { url: own.url });
    await rowsOf(page).nth(4).waitFor();
    await page.getByText(/^\d+ spans$/).waitFor();
    await own.stop();
    await page.keyboard.press('r');
    await page.getByText('Can’t reach the server.').waitFor();
    own = await start(PROGRAM, { folder, port });
    await page.getByRole('button', { name: 'Retry' }).first().click();
    await page.getByText('Can’t reach the server.').waitFor({ state: 'hidden' });
    await rowsOf(page).nth(4).waitFor();
    assert.equal(await rowsOf(page).count(), 5);
    await clean(page);
  } finally {
    await own.stop();
    await rm(folder, { recursive: true });
  }
});

test('a request of more spans than are shown at first is cut where it says so', async () => {
  await send(server.url, large(120_000, Date.now() * 1000 - 60_000_000));
  const page = await open('#/trace/1a46e');
  const grid = page.getByRole('treegrid');
  await page.getByText(/^✂ Showing 100,000 of 120,000 spans/).waitFor();
  assert.equal(await grid.getAttribute('aria-rowcount'), '100001');
  await grid.focus();
  await page.keyboard.press('End');
  await page.getByText(/Cut here: showing 100,000 of 120,000/).waitFor();
  await page.getByRole('button', { name: 'Show all 120,000' }).first().click();
  await page.waitForFunction(() => document.querySelector('[role=treegrid]').getAttribute('aria-rowcount') === '120001');
  assert.equal(await page.getByText(/Cut here/).count(), 0);
  await clean(page);
});

test('what OpenTelemetry’s senders say is text too', async () => {
  const text = (value) => ({ stringValue: value });
  // A resource and a scope may have 128 attributes together.
  const some = (at) => PAYLOADS.slice(at * 40, (at + 1) * 40).map((payload) => ({ key: payload, value: text(payload) }));
  const startNs = BigInt(Date.now() - 60_000) * 1_000_000n;
  const resourceSpans = PAYLOADS.map((payload, at) => ({
    resource: { attributes: [{ key: 'service.name', value: text(payload) }, ...some(at)] },
    scopeSpans: [{
      scope: { name: payload, version: payload, attributes: some(at) },
      spans: [{
        traceId: 'bad'.padStart(32, '0'),
        spanId: (at + 1).toString(16).padStart(16, '0'),
        ...(at === 0 ? {} : { parentSpanId: '0000000000000001' }),
        name: payload,
        traceState: `k=${payload}`,
        startTimeUnixNano: String(startNs + BigInt(at)),
        endTimeUnixNano: String(startNs + 1_000_000n),
        attributes: [{ key: payload, value: text(payload) }, { key: 'list', value: { arrayValue: { values: [text(payload)] } } }],
        events: [{ timeUnixNano: String(startNs + 5n), name: payload, attributes: [{ key: payload, value: text(payload) }] }],
        links: [{ traceId: '1'.padStart(32, '0'), spanId: '2'.padStart(16, '0'), attributes: [{ key: payload, value: text(payload) }] }],
        status: { code: 2, message: payload },
      }],
    }],
  }));
  const answer = await fetch(`${server.url}/v1/traces`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ resourceSpans }) });
  assert.equal(answer.status, 200, await answer.clone().text());
  const told = await answer.json();
  assert.equal(told.partialSuccess?.rejectedSpans ?? 0, 0, JSON.stringify(told));
  const page = await open('#/trace/00000000000000000000000000000bad?span=0000000000000001', {
    route: (page) => page.addInitScript(() => {
      globalThis.__count = 0;
      globalThis.__ran = () => { globalThis.__count += 1; };
    }),
  });
  await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'Tags' }).waitFor();
  assert.match(await page.locator('.facts').textContent(), new RegExp(`${PAYLOADS.length} spans`));
  for (let at = 0; at < 10; at += 1) await page.keyboard.press('j');
  await page.keyboard.press('v');
  await page.getByRole('region', { name: 'Time inside services' }).waitFor();
  assert.equal(await page.evaluate(() => globalThis.__count), 0);
  assert.equal(await page.evaluate(() => document.querySelectorAll('main script, main iframe, main img, main object, main embed').length), 0);
  assert.deepEqual(await page.odd(), []);
  await page.end();
});
