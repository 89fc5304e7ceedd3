// A map of very many services opens on a readable part and can be searched, zoomed and narrowed; its table is limited.
// A small map has failures of very different frequency.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { random, send } from './data.mjs';
import { findings, open, setUp, tearDown } from './support.mjs';

const hex = (number) => number.toString(16).padStart(16, '0');
const COUNT = 352;

/** Returns calls between services in a chain, some of them frequent. */
function many(nowMs) {
  const next = random(4);
  const spans = [];
  const call = (trace, from, to, isError) => {
    const base = { traceId: hex(0x700000 + trace), name: 'call', timestamp: Math.round((nowMs - 600_000 - trace) * 1000), duration: 3000 };
    spans.push({ ...base, id: hex(1), kind: 'CLIENT', localEndpoint: { serviceName: `service-${from}` }, remoteEndpoint: { serviceName: `service-${to}` } });
    spans.push({ ...base, id: hex(2), parentId: hex(1), kind: 'SERVER', duration: 2000, localEndpoint: { serviceName: `service-${to}` }, ...(isError ? { tags: { error: 'x' } } : {}) });
  };
  let trace = 0;
  for (let at = 1; at < COUNT; at += 1) call((trace += 1), Math.floor(next() * at), at, false);
  // The two busiest connections: in one, one call in 40 fails; in the other, every call.
  for (let at = 0; at < 40; at += 1) call((trace += 1), 200, 201, at === 0);
  for (let at = 0; at < 30; at += 1) call((trace += 1), 200, 202, true);
  return spans;
}

/** Waits until the server knows the calls among all services. It counts calls a moment after it has received them. */
async function countedCalls() {
  for (;;) {
    const response = await fetch(`${server.url}/api/v2/dependencies?endTs=${Date.now()}&lookback=3600000`);
    const calls = await response.json();
    if (new Set(calls.flatMap(({ parent, child }) => [parent, child])).size >= COUNT) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

let server;
before(async () => {
  server = await setUp();
  await send(server.url, many(Date.now()));
  await countedCalls();
});
after(tearDown);

async function clean(page) {
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

const boxes = (page) => page.locator('svg .box');
const rows = (page) => page.getByRole('region', { name: 'Calls' }).locator('tbody tr');
const inSight = (page, name) =>
  page.evaluate((name) => {
    const box = [...document.querySelectorAll('svg .box')].find((each) => each.querySelector('.title').textContent === name)?.getBoundingClientRect();
    const around = document.querySelector('.scroll').getBoundingClientRect();
    return box !== undefined && box.left >= around.left && box.right <= around.right && box.top >= around.top && box.bottom <= around.bottom;
  }, name);

test('a large map opens on the busiest services, in sight, and has all of them on demand', async () => {
  const page = await open('#/map');
  await page.getByRole('heading', { name: `${COUNT} services` }).waitFor();
  assert.ok((await boxes(page).count()) <= 24);
  await page.waitForFunction(() => document.querySelector('.scroll').scrollTop >= 0);
  assert.equal(await inSight(page, 'service-200'), true);
  assert.equal(await rows(page).count(), 100);
  await page.getByRole('button', { name: /^Show all \d/ }).click();
  assert.ok((await rows(page).count()) > 300);
  await page.getByRole('button', { name: `Draw all ${COUNT}` }).click();
  await page.waitForFunction((count) => document.querySelectorAll('svg .box').length === count, COUNT);
  // No service with spans of its own is drawn as a remote endpoint.
  await page.waitForFunction(() => document.querySelectorAll('svg .box rect.peer').length === 0);
  const width = () => page.locator('svg.map').evaluate((node) => node.getBoundingClientRect().width);
  const before = await width();
  await page.getByRole('button', { name: 'Zoom in' }).click();
  assert.ok((await width()) > before * 1.2);
  await page.getByRole('button', { name: 'Fit' }).click();
  assert.ok((await width()) <= 1400);
  assert.match(await page.evaluate(() => location.hash), /zoom=\d/);
  await clean(page);
});

test('a service that is searched for is scrolled to, and picture and table are of it', async () => {
  const page = await open('#/map?whole=1');
  await boxes(page).nth(300).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('service-34');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => new URLSearchParams(location.hash.split('?')[1]).get('service') === 'service-34');
  await page.waitForFunction(() => document.querySelectorAll('svg .box').length < 60);
  assert.equal(await inSight(page, 'service-34'), true);
  for (const text of await rows(page).allTextContents()) assert.match(text, /service-34(?=\d|service)/);
  // Part of a name matches several services.
  await page.getByRole('combobox', { name: 'Service' }).fill('ice-20');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('find=ice-20'));
  await page.getByText('“ice-20”').waitFor();
  for (const text of await rows(page).allTextContents()) assert.match(text, /service-20/);
  await page.keyboard.press('Tab');
  await page.getByRole('button', { name: 'All services' }).click();
  await page.waitForFunction(() => !location.hash.includes('find='));
  await clean(page);
});

test('lines are as red as calls failed, rates share a unit, and the page says what is connected', async () => {
  const page = await open('#/map?service=service-200');
  await boxes(page).first().waitFor();
  const red = await page.evaluate(() =>
    Object.fromEntries([...document.querySelectorAll('svg .edge.bad path')].map((path) => [path.getAttribute('marker-end'), getComputedStyle(path).stroke])),
  );
  assert.equal(Object.keys(red).length, 2, JSON.stringify(red));
  assert.notEqual(red['url(#end)'], red['url(#end-bad)']);
  const units = await rows(page).evaluateAll((rows) => rows.map((row) => row.cells[3].textContent.split('/').at(-1)));
  assert.equal(new Set(units).size, 1, units.join());
  await page.getByText('What is connected').click();
  await page.getByText(/a consumer and its producer where neither names the queue/).waitFor();
  await clean(page);
});
