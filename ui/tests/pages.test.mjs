// Each page with data of a storage cluster: it shows the data by mouse and keys, in light and dark, in narrow windows
// and at 200 %, without serious axe findings and without violations of the content security policy.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { requests, send } from './data.mjs';
import { findings, open, setUp, tearDown } from './support.mjs';

let server;
const NOW = Date.now();
const SPANS = requests(240, NOW, 40 * 60_000);
const FAILED = SPANS.find((span) => span.tags?.error);
const ID = FAILED.traceId;

before(async () => {
  server = await setUp();
  await send(server.url, SPANS);
});
after(tearDown);

const rowsOf = (page) => page.locator('table.requests tbody tr');
const hash = (page) => page.evaluate(() => location.hash);
const ofSpan = (page) => page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('span'));

async function clean(page) {
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

test('search shows requests, newest first, and more of them', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  assert.equal(await rowsOf(page).count(), 200);
  await page.getByRole('button', { name: 'Load 200 more' }).click();
  await page.waitForFunction(() => document.querySelectorAll('table.requests tbody tr').length === 240);
  await page.getByRole('button', { name: 'Slowest' }).click();
  await page.waitForFunction(() => location.hash.includes('order=slowest'));
  await page.getByText(/^slowest first/).waitFor();
  const took = await page.locator('.took').allTextContents();
  assert.ok(took[0].endsWith(' ms') && Number.parseFloat(took[0]) > 9, took[0]);
  await clean(page);
});

test('a filter is written with the help of what is known', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('ser');
  const choice = page.getByRole('option', { name: /^service/ });
  await choice.waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.keyboard.type('osd');
  await page.getByRole('option', { name: 'osd.1' }).click();
  await page.keyboard.type('&& error');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('filter='));
  const filter = await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('filter'));
  assert.match(filter, /^service == "osd\.1" && error$/);
  await page.waitForFunction(() => document.querySelectorAll('table.requests tbody tr').length < 40);
  assert.ok((await page.locator('table.requests .chip.bad').count()) > 0);
  await clean(page);
});

test('a list that comes late keeps what was chosen, and keys do not overtake each other', async () => {
  const late = (page) => page.route('**/fields?**', async (asked) => {
    await new Promise((done) => setTimeout(done, 300));
    await asked.continue();
  });
  const page = await open('#/search', { route: late });
  await rowsOf(page).first().waitFor();
  await page.keyboard.press('/');
  const all = page.getByRole('option');
  await all.nth(8).waitFor();
  await page.keyboard.type('se');
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() => document.querySelectorAll('[role="option"]').length < 5);
  await page.keyboard.press('Enter');
  await page.keyboard.type('osd');
  assert.equal(await page.inputValue('#filter'), 'service == "osd');
  await page.getByRole('option', { name: 'osd.1' }).waitFor();
  await page.keyboard.type('.1"');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('filter='));
  await clean(page);
});

test('a wrong filter is shown in place', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  await page.fill('#filter', 'cpu = 3');
  await page.keyboard.press('Enter');
  const words = page.locator('pre.words');
  await words.waitFor();
  const lines = (await words.textContent()).split('\n');
  assert.ok(lines.length >= 3 && lines[2].trim().startsWith('^'), lines.join('\n'));
  await clean(page);
});

test('a box on the picture selects, Escape takes it back', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  const bounds = await page.locator('.plot').boundingBox();
  await page.mouse.move(bounds.x + 800, bounds.y + 10);
  await page.mouse.down();
  await page.mouse.move(bounds.x + 1100, bounds.y + 190, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes('box='));
  const some = await rowsOf(page).count();
  assert.ok(some > 0 && some < 200, `${some}`);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelectorAll('table.requests tbody tr').length === 200);
  await clean(page);
});

test('keys alone lead from the search to a span and back', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.startsWith('#/trace/'));
  await page.getByRole('treegrid').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.getByRole('complementary', { name: 'Span' }).waitFor();
  await page.waitForFunction(() => location.hash.includes('span='));
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('m');
  await page.waitForFunction(() => location.hash.startsWith('#/map'));
  await page.goBack();
  await page.waitForFunction(() => location.hash.startsWith('#/trace/'));
  await clean(page);
});

test('a request: rows, folding, finding, the critical path, one span', async () => {
  const page = await open(`#/trace/${ID}`);
  const grid = page.getByRole('treegrid');
  await grid.waitFor();
  const rows = page.locator('[role=row][aria-level]');
  const all = SPANS.filter((span) => span.traceId === ID).length;
  assert.equal(await rows.count(), all);
  assert.equal(await rows.first().getAttribute('aria-expanded'), 'true');
  await grid.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction(() => document.querySelectorAll('[role=row][aria-level]').length === 1);
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((count) => document.querySelectorAll('[role=row][aria-level]').length === count, all);
  // Selects the failed span with a key.
  await page.keyboard.press('e');
  const detail = page.getByRole('complementary', { name: 'Span' });
  await detail.getByText('Error: EIO').waitFor();
  assert.match(await detail.textContent(), /Error: EIO/);
  await page.waitForFunction((id) => location.hash.includes(id), FAILED.id);
  // Times are exact to the nanosecond.
  const micros = String(FAILED.timestamp % 1_000_000).padStart(6, '0');
  assert.ok((await detail.textContent()).includes(`.${micros}000`));
  await page.keyboard.press('/');
  await page.keyboard.type('mapper');
  await page.keyboard.press('Enter');
  await page.getByText(/^1 of \d/).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('n');
  await page.getByText(/^2 of \d/).waitFor();
  await page.keyboard.press('c');
  await page.waitForFunction(() => location.hash.includes('path=1'));
  assert.ok((await page.locator('[role=row][aria-level]', { hasText: '●' }).count()) > 3);
  await page.keyboard.press('w');
  await page.keyboard.press('d');
  await page.waitForFunction(() => location.hash.includes('from='));
  await page.keyboard.press('0');
  await page.waitForFunction(() => !location.hash.includes('from='));
  await clean(page);
});

test('the address of a span opens it', async () => {
  const page = await open(`#/trace/${ID}?span=${FAILED.id}`);
  await page.getByRole('complementary', { name: 'Span' }).getByText('Error: EIO').waitFor();
  assert.equal(await ofSpan(page), FAILED.id);
  await clean(page);
});

test('layers: a lane for each service in order, time inside and between', async () => {
  const page = await open(`#/trace/${ID}?view=layers&path=1`);
  await page.getByRole('region', { name: 'Time inside services' }).waitFor();
  const services = await page.getByRole('region', { name: 'Time inside services' }).getByRole('rowheader').allTextContents();
  assert.deepEqual(services.slice(0, 4).map((text) => text.trim()), ['guest', 'nbd', 'composer', 'mapper']);
  const pairs = await page.getByRole('region', { name: 'Time between services' }).locator('tbody tr').first().textContent();
  assert.match(pairs, /guest.*nbd.*µs/);
  await clean(page);
});

test('a request is downloaded, and opened again from the file', async () => {
  const page = await open(`#/trace/${ID}`);
  await page.getByRole('treegrid').waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
  assert.equal(download.suggestedFilename(), `${ID}.json`);
  const file = await download.path();
  const json = JSON.parse(await readFile(file, 'utf8'));
  assert.equal(json.spans.length, SPANS.filter((span) => span.traceId === ID).length);
  const calls = [];
  page.on('request', (request) => calls.push(request.url()));
  await page.setInputFiles('input[type=file]', { name: 'own.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(json)) });
  await page.getByText('from the file own.json').waitFor();
  assert.equal(await page.locator('[role=row][aria-level]').count(), json.spans.length);
  await page.keyboard.press('e');
  await page.getByRole('complementary', { name: 'Span' }).getByText('Error: EIO').waitFor();
  assert.ok(!calls.some((url) => /outline|trace\//.test(url)), calls.join(' '));
  const zipkin = SPANS.filter((span) => span.traceId === ID);
  await page.setInputFiles('input[type=file]', { name: 'zipkin.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(zipkin)) });
  await page.getByText('from the file zipkin.json').waitFor();
  await page.setInputFiles('input[type=file]', { name: 'bad.json', mimeType: 'application/json', buffer: Buffer.from('{"a":1}') });
  await page.getByRole('alert').getByText('it has no spans; expected JSON of BlkKin, Zipkin, OpenTelemetry (OTLP) or Jaeger').waitFor();
  await clean(page);
});

test('the map has services and calls, and a table of the same', async () => {
  const page = await open('#/map');
  await page.locator('svg .box').first().waitFor();
  const boxes = await page.locator('svg .box .title').allTextContents();
  assert.deepEqual(boxes.sort(), ['composer', 'guest', 'mapper', 'nbd', 'osd.1', 'osd.2']);
  assert.equal(await page.getByRole('region', { name: 'Calls' }).locator('tbody tr').count(), 5);
  await page.locator('svg .box', { hasText: 'mapper' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('service=mapper'));
  assert.equal(await page.getByRole('region', { name: 'Calls' }).locator('tbody tr').count(), 3);
  await page.getByRole('button', { name: 'All services' }).click();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  assert.match(await page.evaluate(() => document.activeElement.id), /^link-/);
  await clean(page);
});

test('latency: a box by keys says what is different, and a click adds it to the filter', async () => {
  const page = await open('#/latency?filter=' + encodeURIComponent('name == "write object" && kind == server'));
  const heat = page.getByRole('application');
  await heat.waitFor();
  await heat.focus();
  await page.keyboard.press('ArrowUp');
  for (let at = 0; at < 40; at += 1) await page.keyboard.press('ArrowUp');
  for (let at = 0; at < 70; at += 1) await page.keyboard.press('ArrowLeft');
  for (let at = 0; at < 8; at += 1) await page.keyboard.press('Shift+ArrowDown');
  for (let at = 0; at < 119; at += 1) await page.keyboard.press('Shift+ArrowRight');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('box='));
  const table = page.getByRole('region', { name: 'What is different' });
  const word = table.locator('tbody tr', { hasText: 'disk.state' }).filter({ hasText: 'degraded' });
  await word.waitFor();
  await word.getByRole('button', { name: /^Add/ }).click();
  await page.waitForFunction(() => decodeURIComponent(location.hash).replaceAll('+', ' ').includes('tag.disk.state == "degraded"'));
  await clean(page);
});

test('latency: a box by mouse', async () => {
  const page = await open('#/latency');
  await page.getByRole('application').waitFor();
  const bounds = await page.getByRole('application').boundingBox();
  await page.mouse.move(bounds.x + 200, bounds.y + 20);
  await page.mouse.down();
  await page.mouse.move(bounds.x + 700, bounds.y + 120, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('region', { name: 'What is different' }).locator('tbody tr').first().waitFor();
  await clean(page);
});

test('two requests beside each other, chosen in the search', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  await rowsOf(page).nth(0).getByRole('checkbox').check();
  await rowsOf(page).nth(3).getByRole('checkbox').check();
  await page.getByRole('link', { name: 'Compare', exact: true }).last().click();
  await page.getByRole('region', { name: 'Waterfall of B' }).getByRole('treegrid').waitFor();
  assert.equal(await page.getByRole('treegrid').count(), 2);
  assert.match(await page.locator('.sum').textContent(), /B was .* (slower|faster) \(.*×\)/);
  assert.ok((await page.getByRole('region', { name: 'Time inside services' }).locator('tbody tr').count()) >= 5);
  await clean(page);
});

test('live shows what comes, and stands still when it is paused', async () => {
  const page = await open('#/search?live=1');
  await page.getByText(/^Live: /).waitFor();
  const next = requests(3, Date.now(), 1000, Date.now() % 10_000).map((span) => ({ ...span, traceId: `11ee${span.traceId.slice(4)}` }));
  const ids = [...new Set(next.map((span) => span.traceId))];
  await send(server.url, next);
  for (const id of ids) await page.locator(`#request-${id}`).waitFor({ timeout: 5000 });
  await page.keyboard.press('p');
  await page.getByText(/^Paused/).waitFor();
  const later = requests(2, Date.now(), 500, 5).map((span) => ({ ...span, traceId: `22ee${span.traceId.slice(4)}` }));
  await send(server.url, later);
  await page.getByText('Paused: 2 new traces').waitFor({ timeout: 5000 });
  assert.equal(await page.locator(`#request-${later[0].traceId}`).count(), 0);
  await page.keyboard.press('p');
  await page.locator(`#request-${later[0].traceId}`).waitFor();
  await clean(page);
});

test('the time is chosen, and stays in the address on all pages', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  await page.getByRole('button', { name: 'Last hour' }).click();
  await page.getByRole('button', { name: 'Last 15 min' }).click();
  await page.waitForFunction(() => location.hash.includes('range=15m'));
  await page.waitForFunction(() => { const rows = document.querySelectorAll('table.requests tbody tr').length; return rows > 0 && rows < 150; });
  await page.getByRole('link', { name: 'Map' }).click();
  await page.waitForFunction(() => location.hash.startsWith('#/map') && location.hash.includes('range=15m'));
  await clean(page);
});

const LOOKS = ['#/search', `#/trace/${ID}?span=${FAILED.id}&path=1`, `#/trace/${ID}?view=layers&path=1&span=${FAILED.id}`, '#/map', '#/latency', `#/compare?a=${ID}&b=${SPANS[0].traceId}`, '#/compare'];

test('axe finds nothing serious, in light and dark', async () => {
  for (const dark of [false, true]) {
    for (const path of LOOKS) {
      const page = await open(path, { dark });
      await page.waitForLoadState('networkidle');
      await page.waitForTimeout(400);
      assert.deepEqual(await findings(page), [], `${path} ${dark ? 'dark' : 'light'}`);
      await clean(page);
    }
  }
});

test('nothing is cut off in a narrow window, nor at 200 %', async () => {
  for (const size of [{ width: 380, height: 800 }, { width: 700, height: 450, scale: 2 }]) {
    for (const path of LOOKS) {
      const page = await open(path, size);
      await page.waitForLoadState('networkidle');
      await page.waitForTimeout(250);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${path} at ${size.width}: ${wide} pixels too wide`);
      await clean(page);
    }
  }
});

test('light and dark by the system, or by choice', async () => {
  const page = await open('#/map', { dark: true });
  await page.locator('svg .box').first().waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.hasAttribute('data-dark')), true);
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.hasAttribute('data-dark')), false);
  await page.reload();
  await page.locator('svg .box').first().waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.hasAttribute('data-dark')), false);
  assert.match(await hash(page), /^#\/map/);
  await clean(page);
});

// This test is the last one, because its spans would change the answers of others.
test('latency: says on what the selected spans spend more of their own time', async () => {
  const hex = (number) => number.toString(16).padStart(16, '0');
  const span = (at, disk) => ({
    traceId: hex(0x0e00 + at), id: hex(0x0e00 + at), name: 'flush', kind: 'SERVER', timestamp: (NOW - at * 1000) * 1000, duration: disk / 1000 + 100,
    localEndpoint: { serviceName: 'journal' },
    tags: { 'blkkin.own.disk': String(disk), 'blkkin.own.running': '100000', 'blkkin.disk.vda.served': String(disk), 'blkkin.own.bands': `disk 0 ${disk} vda` },
  });
  const { tags, ...unknown } = span(60, 5_000_000);
  await send(server.url, [...Array.from({ length: 40 }, (_, at) => span(at + 1, at % 4 === 0 ? 5_000_000 : 1_000_000)), unknown]);
  const box = [BigInt(NOW - 3_600_000) * 1_000_000n, BigInt(NOW) * 1_000_000n, 3_000_000, 9_000_000].join();
  const page = await open(`#/latency?${new URLSearchParams({ filter: 'service == "journal"', box })}`);
  const part = page.getByRole('region', { name: 'What is different' });
  await part.getByText('The slow ones wait 4.00 ms more for the disk vda.').waitFor();
  await part.getByText('Own time is known of 10 of 11 selected spans and all others.').waitFor();
  const cells = await part.locator('tbody tr', { hasText: 'Waiting for a disk' }).locator('td').allTextContents();
  assert.deepEqual(cells.slice(0, 4), ['Waiting for a disk', '5.00 ms', '1.00 ms', '+4.00 ms']);
  assert.equal(await part.getByText('blkkin.own').count(), 0);
  assert.deepEqual(await findings(page), []);
  await clean(page);
});
