// Narrow windows and touch: names and errors stay visible, rows stay low, tables do not break names into letters, and a
// swipe over a drawing scrolls the page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { requests, send, shop } from './data.mjs';
import { findings, open, setUp, tearDown } from './support.mjs';

let server;
const NOW = Date.now();
const SPANS = requests(240, NOW, 40 * 60_000);
const FAILED = SPANS.find((span) => span.tags?.error);
const { spans: SHOP, named } = shop(NOW);

before(async () => {
  server = await setUp();
  await send(server.url, [...SPANS, ...SHOP]);
});
after(tearDown);

async function clean(page) {
  assert.deepEqual(await findings(page), []);
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

const heights = (page, selector) => page.locator(selector).evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().height));

test('at 768 pixels rows are low, the header is one row, and failures are in sight', async () => {
  const page = await open('#/search?filter=error', { width: 768 });
  await page.getByText(/osd\.\d: EIO/).first().waitFor();
  const rows = await heights(page, 'table.requests tbody tr');
  // A name and two lines of message.
  assert.ok(Math.max(...rows) <= 68, rows.join());
  assert.ok((await heights(page, 'header.top'))[0] < 50);
  for (const box of await page.locator('table.requests .failure').evaluateAll((lines) => lines.map((line) => line.getBoundingClientRect().right))) assert.ok(box <= 768, `${box}`);
  await clean(page);
});

test('at 390 pixels the header takes two rows, and failures are in sight', async () => {
  const page = await open('#/search?filter=error', { width: 390, height: 844 });
  await page.getByText(/osd\.\d: EIO/).first().waitFor();
  assert.ok((await heights(page, 'header.top'))[0] < 75);
  for (const box of await page.locator('table.requests .failure').evaluateAll((lines) => lines.map((line) => line.getBoundingClientRect().right))) assert.ok(box <= 390, `${box}`);
  assert.ok(await page.locator('table.requests input[type=checkbox]').first().isVisible());
  await clean(page);
});

test('with the details at 1024 pixels, names of services are whole', async () => {
  const page = await open(`#/trace/${FAILED.traceId}?span=${FAILED.id}`, { width: 1024 });
  await page.getByRole('complementary', { name: 'Span' }).waitFor();
  const widths = await page.locator('[role=row] .service').evaluateAll((names) => names.map((name) => [name.textContent, name.clientWidth, name.scrollWidth]));
  const cut = widths.filter(([, seen, whole]) => whole > seen + 1);
  assert.ok(cut.length <= widths.length / 10, cut.join());
  await clean(page);
});

test('tables do not break names of services into letters', async () => {
  for (const [path, width] of [['#/map', 390], [`#/compare?a=${FAILED.traceId}&b=${SPANS[0].traceId}`, 1024], [`#/compare?a=${FAILED.traceId}&b=${SPANS[0].traceId}`, 390], [`#/trace/${FAILED.traceId}?view=layers`, 390]]) {
    const page = await open(path, { width, height: 844 });
    await page.locator('td.name, th[scope=row]').first().waitFor();
    const broken = await page.locator('td.name, th[scope=row] .name').evaluateAll((cells) =>
      cells.filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        // Finds short names that are broken over several lines.
        return cell.textContent.trim().length < 12 && !cell.textContent.trim().includes(' ') && new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1;
      }).map((cell) => cell.textContent),
    );
    assert.deepEqual(broken, [], `${path} at ${width}`);
    await clean(page);
  }
});

test('a swipe over a drawing scrolls the page, and selects nothing', async () => {
  for (const [path, selector] of [['#/search', '.plot'], ['#/search', '.counts'], ['#/latency', '.heat'], ['#/latency', '.histogram'], [`#/trace/${named.deep}?view=layers`, '.lanes .picture']]) {
    const page = await open(path, { width: 390, height: 600, touch: true });
    const plot = page.locator(selector);
    await plot.waitFor();
    await plot.scrollIntoViewIfNeeded();
    const bounds = await plot.boundingBox();
    const places = () => page.evaluate(() => [...document.querySelectorAll('*')].reduce((sum, node) => sum + node.scrollTop, 0));
    const before = await places();
    const devtools = await page.context().newCDPSession(page);
    const [x, y] = [bounds.x + 180, Math.min(500, bounds.y + bounds.height / 2)];
    const by = y > 200 ? -25 : 25;
    const touch = (type, at) => devtools.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x, y: at }] });
    await touch('touchStart', y);
    for (let step = 1; step <= 6; step += 1) await touch('touchMove', y + step * by);
    await touch('touchEnd', 0);
    await page.waitForTimeout(100);
    assert.notEqual(await places(), before, `${path} ${selector}`);
    assert.ok(!(await page.evaluate(() => location.hash)).includes('box='), path);
    await clean(page);
  }
});
