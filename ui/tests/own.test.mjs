// Own time of spans: bands in the bars of the waterfall, their legend and keys, the table of a span, and the sums of
// services. Tags are sent as a sender does, some of them malformed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ownTimes, send } from './data.mjs';
import { findings, open, setUp, tearDown } from './support.mjs';

let server;
const { traceId, spans } = ownTimes(Date.now());
const TRACE = `#/trace/${traceId}`;

before(async () => {
  server = await setUp();
  await send(server.url, spans);
});
after(tearDown);

async function clean(page) {
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

const kinds = (page) => page.getByRole('group', { name: 'Own time by kind' });
const details = (page) => page.getByRole('complementary', { name: 'Span' });

/** Returns the texts of a table's cells, row by row. */
const cellsOf = (table) => table.locator('tr').evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim().replace(/\s+/g, ' ')).filter((text) => text !== '')));

/** Returns the place of a time on the canvas, in CSS pixels, at the middle of the bands of a row. */
const placeOf = (page, row, ms) => page.evaluate(([row, ms]) => {
  const { width } = document.querySelector('.bars canvas').getBoundingClientRect();
  return { x: (ms / 10) * (width - 58), y: 26 + row * 22 + 11.5 };
}, [row, ms]);

/** Returns the colours within 4 pixels of a time in the bar of a row, each once. */
async function coloursAt(page, row, ms) {
  const place = await placeOf(page, row, ms);
  return page.evaluate(({ x, y }) => {
    const canvas = document.querySelector('.bars canvas');
    const { data } = canvas.getContext('2d').getImageData(Math.round(x) - 4, Math.round(y) - 4, 8, 8);
    const colours = new Set();
    for (let at = 0; at < data.length; at += 4) colours.add(`#${[...data.slice(at, at + 3)].map((part) => part.toString(16).padStart(2, '0')).join('')}`);
    return [...colours];
  }, place);
}

for (const dark of [false, true]) {
  test(`bands of own time are in the bars, ${dark ? 'dark' : 'light'}`, async () => {
    const colours = dark ? { running: '#2fb88f', lock: '#d584b4', disk: '#e69f00', sleep: '#d6cb45' } : { running: '#00825c', lock: '#ad4f8a', disk: '#c77700', sleep: '#857400' };
    const page = await open(TRACE, { dark });
    await kinds(page).waitFor();
    // Row 2 has no own time, and the root had children from 3 to 7 ms.
    for (const [row, ms, kind] of [[0, 0.3, 'running'], [0, 2.1, 'lock'], [1, 3.7, 'disk'], [3, 3.55, 'sleep']]) assert.ok((await coloursAt(page, row, ms)).includes(colours[kind]), `${kind} is not at ${ms} ms: ${await coloursAt(page, row, ms)}`);
    for (const [row, ms] of [[0, 5], [2, 3.5]]) for (const colour of await coloursAt(page, row, ms)) assert.ok(![colours.running, colours.lock, colours.disk].includes(colour), `${colour} at ${ms} ms`);
    await clean(page);
  });
}

test('the legend has the sums of the trace, and highlights a kind', async () => {
  const page = await open(TRACE);
  await kinds(page).waitFor();
  const texts = (await kinds(page).getByRole('button').allTextContents()).map((text) => text.trim().replace(/\s+/g, ' '));
  assert.deepEqual(texts, ['running 4.00 ms', 'runnable 500 µs', 'disk 3.10 ms', 'lock 1.00 ms', 'network 1.00 ms', 'sleep 300 µs', 'page fault 200 µs', 'poll 500 µs', 'other wait 500 µs', 'elsewhere 900 µs', 'unknown 600 µs']);
  assert.match(await kinds(page).textContent(), /Own time of 4 spans/);
  const disk = kinds(page).getByRole('button', { name: /^disk/ });
  await disk.click();
  assert.equal(await disk.getAttribute('aria-pressed'), 'true');
  await page.waitForFunction(() => location.hash.includes('own=disk'));
  // Others are drawn faintly.
  assert.ok(!(await coloursAt(page, 0, 0.3)).includes('#00825c'));
  assert.ok((await coloursAt(page, 1, 3.7)).includes('#c77700'));
  await disk.focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => !location.hash.includes('own='));
  assert.ok((await coloursAt(page, 0, 0.3)).includes('#00825c'));
  await clean(page);
});

test('bands are told by pointer and by keys', async () => {
  const page = await open(TRACE);
  await kinds(page).waitFor();
  const bounds = await page.locator('.bars').boundingBox();
  const place = await placeOf(page, 0, 2.5);
  await page.mouse.move(bounds.x + place.x, bounds.y + place.y);
  await page.waitForFunction(() => document.querySelector('.bars').title.includes('Waiting for a lock, released by thread 4711: 1.00 ms, from 2.00 ms after the span’s start'));
  const status = kinds(page).getByRole('status');
  await page.keyboard.press('j');
  for (const words of ['1 of 5: Running on a processor: 2.00 ms, from 0 ns', '2 of 5: Waiting for a lock, released by thread 4711: 1.00 ms']) {
    await page.keyboard.press('b');
    await status.filter({ hasText: words }).waitFor();
  }
  await page.keyboard.press('B');
  await status.filter({ hasText: '1 of 5' }).waitFor();
  // Of a highlighted kind, only its bands are visited.
  await kinds(page).getByRole('button', { name: /^network/ }).click();
  await page.keyboard.press('b');
  await status.filter({ hasText: '4 of 5: Waiting for the network' }).waitFor();
  await page.keyboard.press('j');
  await page.waitForFunction(() => document.querySelector('.kinds [role=status]').textContent === '');
  assert.match(await page.getByRole('row').nth(2).textContent(), /: running 500 µs, disk 3\.00 ms, other wait 500 µs/);
  await clean(page);
});

test('the details have a table of own time instead of its tags', async () => {
  const page = await open(`${TRACE}?span=0000000000000002`);
  await details(page).getByRole('table', { name: 'Own time', exact: true }).waitFor();
  const table = details(page).getByRole('table', { name: 'Own time', exact: true });
  assert.deepEqual(await cellsOf(table), [['Kind', 'Time', 'Share', 'Share as a bar'], ['running', '500 µs', '13%'], ['disk', '3.00 ms', '75%'], ['vda: queued 1.00 ms, served 1.90 ms'], ['other wait', '500 µs', '13%'], ['in flock: 500 µs']]);
  assert.doesNotMatch(await details(page).textContent(), /blkkin\.(own|disk)/);
  await details(page).getByText('In order of time (3)').click();
  const bands = details(page).getByRole('table', { name: 'Own time in order' });
  await bands.waitFor();
  assert.deepEqual(await cellsOf(bands), [['Offset', 'Time', 'Kind'], ['0 ns', '500 µs', 'running'], ['500 µs', '3.00 ms', 'disk: Waiting for the disk vda'], ['3.50 ms', '500 µs', 'other wait: Waiting in the system call flock']]);
  // Other tags stay, and a span without own time has no table.
  await page.getByRole('row').filter({ hasText: 'GET /cart' }).click();
  await details(page).getByRole('row').filter({ hasText: /http\.route\s*\/cart/ }).waitFor();
  await details(page).getByText('released by thread 4711: 1.00 ms').waitFor();
  await page.getByRole('row').filter({ hasText: 'cache' }).click();
  await details(page).getByText('No tags or events').waitFor();
  assert.equal(await details(page).getByRole('heading', { name: 'Own time' }).count(), 0);
  await clean(page);
});

test('malformed values stay tags, and markup is text', async () => {
  const page = await open(`${TRACE}?span=0000000000000005`, { route: (page) => page.addInitScript(() => { globalThis.__ran = () => { globalThis.__count = 1; }; }) });
  await details(page).getByText('<b>: queued 7.00 µs, served 0 ns').waitFor();
  const table = details(page).getByRole('table', { name: 'Own time', exact: true });
  assert.deepEqual((await cellsOf(table))[1], ['disk', '100 µs', '100%']);
  await details(page).getByText('In order of time (1)').click();
  await details(page).getByText('Waiting for the disk <img/src=x/onerror=__ran()>').waitFor();
  assert.match(await details(page).textContent(), /blkkin\.own\.running\s*<img src=x onerror=__ran\(\)>/);
  assert.equal(await page.evaluate(() => globalThis.__count), undefined);
  await clean(page);
});

test('layers have the sums of each service', async () => {
  const page = await open(`${TRACE}?view=layers`);
  const region = page.getByRole('region', { name: 'Own time of services' });
  await region.waitFor();
  const [head, ...rows] = await cellsOf(region.getByRole('table'));
  assert.deepEqual(head, ['Service', 'Spans', 'running', 'runnable', 'disk', 'lock', 'network', 'sleep', 'page fault', 'poll', 'other wait', 'elsewhere', 'unknown', 'Own time as a bar']);
  assert.deepEqual(rows, [
    ['shop', '1', '3.50 ms', '500 µs', '–', '1.00 ms', '1.00 ms', '–', '–', '–', '–', '–', '–'],
    ['database', '1', '500 µs', '–', '3.00 ms', '–', '–', '–', '–', '–', '500 µs', '–', '–'],
    ['worker', '2', '–', '–', '100 µs', '–', '–', '300 µs', '200 µs', '500 µs', '–', '900 µs', '600 µs'],
  ]);
  await clean(page);
});

test('a narrow window has the legend and the table', async () => {
  const page = await open(`${TRACE}?span=0000000000000002`, { width: 390, height: 844, dark: true });
  await kinds(page).waitFor();
  await details(page).getByRole('table', { name: 'Own time', exact: true }).waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide}`);
  await clean(page);
});

test('a comparison has the sums of both traces, and highlights a kind in both', async () => {
  const page = await open(`#/compare?a=${traceId}&b=${traceId}`);
  await kinds(page).nth(1).waitFor();
  const disks = page.getByRole('button', { name: /^disk 3\.10 ms/ });
  await disks.nth(1).click();
  await page.waitForFunction(() => location.hash.includes('own=disk'));
  for (const button of await disks.all()) assert.equal(await button.getAttribute('aria-pressed'), 'true');
  await page.getByRole('treegrid', { name: 'Spans of trace A' }).focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('b');
  await kinds(page).first().getByRole('status').filter({ hasText: '2 of 3: Waiting for the disk vda: 3.00 ms' }).waitFor();
  await clean(page);
});
