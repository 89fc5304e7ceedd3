// The tasks of an engineer on call, with traces of a shop: durations are those that the caller saw, ids and words are
// found, links lead to the linked trace, and Back restores the position.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { request, requests, random, send, shop } from './data.mjs';
import { findings, open, setUp, tearDown } from './support.mjs';

let server;
const NOW = Date.now();
const { spans: SHOP, named } = shop(NOW);

before(async () => {
  server = await setUp();
  await send(server.url, SHOP);
});
after(tearDown);

const rowsOf = (page) => page.locator('table.requests tbody tr');
const param = (page, name) => page.evaluate((name) => new URLSearchParams(location.hash.split('?')[1]).get(name), name);
const path = (name) => `#/search?filter=${encodeURIComponent(name)}`;
const ids = (page) => page.locator('table.requests a[id^=request-]').evaluateAll((links) => links.map((link) => link.id.slice(8)));

async function clean(page) {
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

test('a trace takes as long as its root, and says until when work goes on', async () => {
  const page = await open('#/search?name=' + encodeURIComponent('POST /checkout'));
  await rowsOf(page).nth(1).waitFor();
  const slow = rowsOf(page).filter({ has: page.locator(`#request-${named.slow}`) });
  assert.equal((await slow.locator('.took').textContent()).trim(), '206 ms');
  assert.match(await slow.textContent(), /async work until 900 ms/);
  // The order uses the caller's duration: the trace of 21 ms is not the slowest, although its work takes longest.
  await page.getByRole('button', { name: 'Slowest' }).click();
  await page.getByText(/^slowest first/).waitFor();
  assert.deepEqual(await ids(page), [named.slow, named.quick]);
  await page.getByLabel('Min duration').fill('100ms');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('table.requests tbody tr').length === 1);
  assert.deepEqual(await ids(page), [named.slow]);
  await page.goto(`${server.url}/#/trace/${named.quick}`);
  await page.locator('.duration', { hasText: '21.0 ms, async work until 2.60 s' }).waitFor();
  await page.goto(`${server.url}/#/compare?a=${named.quick}&b=${named.slow}`);
  await page.locator('.sum', { hasText: /B was 185 ms slower \(9\.81 ×\)/ }).waitFor();
  await page.getByRole('region', { name: 'Operations' }).getByRole('row', { name: /POST \/checkout/ }).waitFor();
  await clean(page);
});

test('zooming to a selection keeps what is selected', async () => {
  const page = await open('#/search?name=' + encodeURIComponent('POST /checkout'));
  await rowsOf(page).nth(1).waitFor();
  const bounds = await page.locator('.plot').boundingBox();
  await page.mouse.move(bounds.x + 70, bounds.y + 2);
  await page.mouse.down();
  await page.mouse.move(bounds.x + bounds.width - 12, bounds.y + bounds.height - 30, { steps: 4 });
  await page.mouse.up();
  await page.getByText(/^2 of 2 selected/).waitFor();
  await page.getByRole('button', { name: 'Zoom to selection' }).click();
  await page.waitForFunction(() => location.hash.includes('start=') && !location.hash.includes('box='));
  await page.getByRole('heading', { name: /^2 traces/ }).waitFor();
  await clean(page);
});

test('an id opens its trace, in whatever form it comes', async () => {
  const page = await open('#/search');
  for (const text of [named.quick, named.quick.toUpperCase(), named.quick.padStart(32, '0'), `https://zipkin.example/zipkin/traces/${named.quick}`, named.quick.replace(/^0+/, '')]) {
    await page.goto(`${server.url}/#/search`);
    await page.locator('#filter').fill(text);
    await page.keyboard.press('Enter');
    await page.getByRole('treegrid').waitFor();
    assert.equal(await page.evaluate(() => Number.parseInt(location.hash.slice(8).split('?')[0].slice(-12), 16)), Number.parseInt(named.quick, 16), text);
    await page.goBack();
    await page.waitForFunction(() => !location.hash.startsWith('#/trace/'));
  }
  await page.goto(`${server.url}/#/trace/${named.quick.toUpperCase()}`);
  await page.getByRole('treegrid').waitFor();
  await clean(page);
});

test('addresses of Zipkin’s pages lead to the same here', async () => {
  const page = await open(`zipkin/traces/${named.quick}`);
  await page.getByRole('treegrid').waitFor();
  assert.ok((await page.url()).includes(`#/trace/${named.quick}`));
  await page.goto(`${server.url}/zipkin/?serviceName=orders&minDuration=100ms`);
  await page.getByRole('heading', { name: /^1 traces/ }).waitFor();
  assert.equal(await param(page, 'service'), 'orders');
  await page.goto(`${server.url}/zipkin/dependency`);
  await page.locator('svg .box').first().waitFor();
  await clean(page);
});

test('words are searched in all texts, and unknown fields are told with what is near', async () => {
  const page = await open('#/search');
  await page.locator('#filter').fill('stripe-QUICK');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^1 traces/ }).waitFor();
  assert.deepEqual(await ids(page), [named.quick]);
  await page.getByText(/Spans with “stripe-QUICK”/).waitFor();
  await page.locator('#filter').fill('serviec == "orders"');
  await page.keyboard.press('Enter');
  await page.getByText('No tag or field named serviec').waitFor();
  await page.getByRole('link', { name: 'service', exact: true }).click();
  await page.getByRole('heading', { name: /^2 traces/ }).waitFor();
  assert.equal(await page.inputValue('#filter'), 'service == "orders"');
  // No old results stay below an error.
  await page.locator('#filter').fill('service == ');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Invalid filter or request' }).waitFor();
  assert.equal(await rowsOf(page).count(), 0);
  assert.deepEqual(await findings(page), []);
  await clean(page);
});

test('the picture counts the whole range, and what is loaded of it', async () => {
  await send(server.url, requests(230, NOW, 20 * 60_000, 11).map((span) => ({ ...span, traceId: `0c${span.traceId.slice(2)}` })));
  const page = await open('#/search?range=1h');
  await page.getByText(/^[\d,]+ traces, 1 failed at the root/).waitFor();
  const total = Number((await page.locator('.counted').textContent()).split(' ')[0].replaceAll(',', ''));
  // All traces of the shop except the one in the future.
  assert.equal(total, 230 + 6);
  await page.getByText(`newest first, of ${total}`).waitFor();
  const bounds = await page.locator('.counts').boundingBox();
  // The first bar is where the first request starts, 20 of 60 minutes before the end.
  await page.mouse.move(bounds.x + 62 + (bounds.width - 72) * 0.3, bounds.y + 40);
  await page.getByText(/: 0 traces, 0 failed at the root$/).waitFor();
  await page.mouse.click(bounds.x + 62 + (bounds.width - 72) * 0.8, bounds.y + 40);
  await page.waitForFunction(() => location.hash.includes('start='));
  await clean(page);
});

test('what is in the future stretches nothing, and is not hidden', async () => {
  const page = await open('#/search');
  await rowsOf(page).first().waitFor();
  assert.ok(!(await ids(page)).includes(named.future));
  await page.getByText('1 trace starts in the future').waitFor();
  await page.getByRole('link', { name: 'Show' }).click();
  await page.locator(`#request-${named.future}`).waitFor();
  const [asked] = await Promise.all([page.waitForRequest(/heatmap/), page.goto(`${server.url}/#/latency?range=all`)]);
  assert.ok(Number(new URL(asked.url()).searchParams.get('endNs')) < (Date.now() + 120_000) * 1e6, asked.url());
  await page.getByRole('application').waitFor();
  await clean(page);
});

test('peers of the map are found with their caller, at rates of the time with data', async () => {
  const page = await open('#/map');
  const link = page.getByRole('link', { name: 'View traces of calls from orders to postgres-pay' });
  if (process.env.BLKKIN_SERVER) {
    await page.waitForFunction(() => [...document.querySelectorAll('a[aria-label*="postgres-pay"]')].some((link) => decodeURIComponent(link.href).includes('remote')));
    await link.click();
    await page.getByRole('heading', { name: /^2 traces/ }).waitFor();
    assert.equal(await page.inputValue('#filter'), 'service == "orders" && remote == "postgres-pay"');
  }
  await page.goto(`${server.url}/#/map?range=all`);
  await page.getByRole('row', { name: /guest nbd/ }).waitFor();
  // 230 calls in 20 minutes, for any range.
  const rate = await page.getByRole('row', { name: /guest nbd/ }).locator('td').nth(3).textContent();
  assert.ok(rate.endsWith('/min') && Math.abs(Number.parseFloat(rate) - 230 / 20) < 1.5, rate);
  await page.getByRole('button', { name: 'From' }).click();
  await page.waitForFunction(() => location.hash.includes('sort=parent'));
  const first = await page.getByRole('region', { name: 'Calls' }).locator('tbody td').first().textContent();
  await page.getByRole('button', { name: /^From/ }).click();
  await page.waitForFunction(() => location.hash.includes('reversed=1'));
  assert.notEqual(await page.getByRole('region', { name: 'Calls' }).locator('tbody td').first().textContent(), first);
  await clean(page);
});

test('links lead to other traces, exceptions are readable, tags with odd keys are found', async () => {
  const mail = SHOP.find((span) => span.traceId === named.slow && span.name === 'send mail');
  const page = await open(`#/trace/${named.slow}?span=${mail.id}`);
  const detail = page.getByRole('complementary', { name: 'Span' });
  await detail.getByRole('heading', { name: 'Links' }).waitFor();
  await detail.getByText('reason message').waitFor();
  await detail.getByRole('link', { name: named.slow.padStart(32, '0') }).click();
  await page.getByRole('treegrid').waitFor();
  await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'charge' }).waitFor();
  await page.getByRole('link', { name: 'Traces that link here' }).click();
  await page.getByRole('heading', { name: /^1 traces/ }).waitFor();
  // The sender of the message links to its consumer.
  const sent = SHOP.find((span) => span.traceId === named.slow && span.name === 'orders.created');
  await page.goto(`${server.url}/#/trace/${named.slow}?span=${sent.id}`);
  await page.getByRole('button', { name: 'mailer send mail' }).click();
  await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'send mail' }).waitFor();
  await page.goto(`${server.url}/#/trace/${named.failed}?span=${named.origin}`);
  await page.getByText('Error: DeclinedError: no funds').waitFor();
  const event = page.locator('table.events');
  await event.getByText('exception.type').waitFor();
  await event.locator('summary', { hasText: 'DeclinedError: no funds' }).click();
  assert.match(await event.locator('pre').textContent(), /no funds\n\tat charge/);
  assert.deepEqual(await findings(page), []);
  const root = SHOP.find((span) => span.traceId === named.slow && span.name === 'POST /checkout');
  await page.goto(`${server.url}/#/trace/${named.slow}?span=${root.id}`);
  await page.getByRole('row', { name: /user-agent/ }).getByRole('link').click();
  await page.getByRole('heading', { name: /^1 traces/ }).waitFor();
  assert.deepEqual(await ids(page), [named.slow]);
  await clean(page);
});

test('e goes to where a failure began', async () => {
  const page = await open(`#/trace/${named.failed}`);
  await page.getByRole('button', { name: '▲ 1 failure, passed on 3 ×' }).waitFor();
  await page.keyboard.press('e');
  await page.getByRole('complementary', { name: 'Span' }).getByRole('heading', { name: 'call card' }).waitFor();
  await clean(page);
});

test('clocks that differ are marked, and corrected where that is asked for', async () => {
  const page = await open(`#/trace/${named.skewed}`);
  await page.getByText(/Clocks differ by 3\.00 s or more/).waitFor();
  assert.equal(await page.locator('[role=row]', { hasText: 'clocks differ' }).count(), 1);
  const own = () => page.locator('[role=row]', { hasText: 'ask stock' }).locator('.own').textContent();
  assert.equal(await own(), '80.0 ms');
  await page.getByRole('button', { name: 'Correct clocks' }).click();
  await page.waitForFunction(() => location.hash.includes('clocks=corrected'));
  assert.equal(await own(), '10.0 ms');
  await page.getByText(/^0–100 ms$/).waitFor();
  assert.equal(await page.locator('[role=row]', { hasText: 'clocks differ' }).count(), 0);
  assert.deepEqual(await findings(page), []);
  await page.reload();
  await page.getByRole('button', { name: 'Clocks corrected' }).click();
  await page.waitForFunction(() => !location.hash.includes('clocks='));
  await page.getByText(/^0–3\.09 s$/).waitFor();
  await clean(page);
});

test('marks that turn the direction of text are shown', async () => {
  const page = await open('#/search?service=shell');
  await page.getByRole('link', { name: 'shell run evil[U+202E]gnp.exe' }).click();
  await page.getByRole('heading', { name: 'shell run evil[U+202E]gnp.exe' }).waitFor();
  await page.keyboard.press('j');
  const detail = page.getByRole('complementary', { name: 'Span' });
  await detail.getByRole('heading', { name: 'run evil[U+202E]gnp.exe' }).waitFor();
  await detail.getByRole('row', { name: /file\[U\+202E\]name evil\[U\+202E\]gnp\.exe/ }).waitFor();
  assert.ok(!/\u202e/.test(await page.locator('main').innerText()));
  await clean(page);
});

test('a failed trace says in the list which service failed and why, once', async () => {
  const page = await open('#/search?service=web');
  const row = rowsOf(page).filter({ has: page.locator(`#request-${named.failed}`) });
  await row.getByText('card: DeclinedError: no funds').waitFor();
  await row.getByText('passed on 3 ×').waitFor();
  assert.match(await row.locator('.services .chip').first().textContent(), /▲/);
  assert.deepEqual(await findings(page), []);
  // A request of many spans.
  await page.goto(`${server.url}/#/search?service=level-1`);
  await page.getByText('level-0: disk full').waitFor();
  await page.getByText('passed on 2 ×').waitFor();
  await clean(page);
});

test('examples of latency say their service and operation, and each trace comes once', async () => {
  const page = await open('#/latency?filter=' + encodeURIComponent('service == "orders"'));
  const examples = page.getByRole('region', { name: 'Examples' });
  await examples.getByRole('link', { name: 'orders POST /checkout' }).first().waitFor();
  const ids = await examples.locator('td.mono').allTextContents();
  assert.equal(new Set(ids).size, ids.length);
  await clean(page);
});

test('bars of the list tell traces apart beside a very long one', async () => {
  await send(server.url, requests(60, NOW, 15 * 60_000, 21).map((span) => ({ ...span, traceId: `0b${span.traceId.slice(2)}` })));
  const page = await open('#/search?range=all');
  await page.getByText('Duration (log scale)').waitFor();
  const widths = await page.locator('.track .fill').evaluateAll((bars) => bars.map((bar) => Number.parseFloat(bar.style.width)));
  assert.ok(Math.max(...widths) === 100 && widths.filter((each) => each > 5).length > widths.length / 2, widths.join());
  await clean(page);
});

test('an address that leads nowhere says so', async () => {
  const page = await open('#/bogus?range=1h');
  await page.getByRole('heading', { name: 'No page bogus' }).waitFor();
  assert.equal(await page.locator('#filter').count(), 0);
  await page.getByRole('link', { name: 'Go to Search' }).click();
  await page.locator('#filter').waitFor();
  await clean(page);
});

test('the histogram has counts, says what is pointed at, and narrows the filter', async () => {
  const page = await open('#/latency?range=all');
  const plot = page.locator('.histogram');
  await plot.waitFor();
  const bounds = await plot.boundingBox();
  await page.mouse.move(bounds.x + bounds.width * 0.5, bounds.y + 120);
  await page.locator('.bar-told', { hasText: /span/ }).waitFor();
  await page.mouse.down();
  await page.mouse.move(bounds.x + bounds.width * 0.8, bounds.y + 120, { steps: 3 });
  await page.mouse.up();
  await page.waitForFunction(() => /duration >= .* && duration <= /.test(decodeURIComponent(location.hash).replaceAll('+', ' ')));
  await page.getByText('As a table').click();
  assert.ok((await page.locator('.histogram-table tbody tr').count()) > 0);
  assert.deepEqual(await findings(page), []);
  await clean(page);
});

test('the width of the name column and the theme are remembered, and the theme can be the system’s again', async () => {
  const page = await open(`#/trace/${named.quick}`);
  const split = page.getByRole('separator');
  const width = () => split.getAttribute('aria-valuenow');
  const before = Number(await width());
  await split.focus();
  for (let at = 0; at < 3; at += 1) await page.keyboard.press('ArrowRight');
  assert.equal(Number(await width()), before + 6);
  await page.reload();
  await page.getByRole('treegrid').waitFor();
  assert.equal(Number(await width()), before + 6);
  await page.keyboard.press('t');
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => localStorage.getItem('blkkin-look')), null);
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForFunction(() => document.documentElement.hasAttribute('data-dark'));
  await clean(page);
});

test('trace ids are copied with all digits that programs log', async () => {
  const page = await open(`#/trace/${named.quick}`);
  await page.getByRole('treegrid').waitFor();
  await page.evaluate(() => { navigator.clipboard.writeText = (text) => { globalThis.__copied = text; return Promise.resolve(); }; });
  await page.getByRole('button', { name: 'Copy 32 digits of the trace ID' }).click();
  assert.equal(await page.evaluate(() => globalThis.__copied), named.quick.padStart(32, '0'));
  await clean(page);
});

test('finding looks at tags, and pans to what it found; deep trees keep their names', async () => {
  const page = await open(`#/trace/${named.deep}?from=20000000&to=25000000`);
  await page.getByRole('treegrid').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('bottommost');
  await page.keyboard.press('Enter');
  await page.getByText('1 of 1').waitFor();
  await page.waitForFunction((id) => location.hash.includes(id), named.bottom);
  const [from, to] = [Number(await param(page, 'from')), Number(await param(page, 'to'))];
  assert.ok(from <= 11_900_000 && to >= 11_900_000 && to - from === 5_000_000, `${from} to ${to}`);
  const row = page.locator(`[role=row][aria-selected=true]`);
  assert.match(await row.textContent(), /119.*level-0.*step 119/s);
  const sizes = await row.evaluate((row) => {
    const [cell, name] = [row.querySelector('.what'), row.querySelector('.what .span')].map((node) => node.getBoundingClientRect());
    return { seen: Math.min(cell.right, name.right) - name.left, left: name.left - cell.left, cell: cell.width };
  });
  assert.ok(sizes.seen > 30 && sizes.left < sizes.cell * 0.8, JSON.stringify(sizes));
  await clean(page);
});

test('Back leads to the list as it was left, with what was ticked', async () => {
  const page = await open('#/search');
  await rowsOf(page).nth(199).waitFor();
  await rowsOf(page).nth(1).getByRole('checkbox').check();
  await page.getByRole('button', { name: 'Load 200 more' }).click();
  await rowsOf(page).nth(220).waitFor();
  const count = await rowsOf(page).count();
  await rowsOf(page).nth(215).scrollIntoViewIfNeeded();
  const top = await page.evaluate(() => scrollY);
  assert.ok(top > 1000);
  await rowsOf(page).nth(215).getByRole('link').click();
  await page.getByRole('treegrid').waitFor();
  await page.goBack();
  await rowsOf(page).nth(220).waitFor();
  assert.equal(await rowsOf(page).count(), count);
  await page.waitForFunction((top) => Math.abs(scrollY - top) < 30, top);
  assert.equal(await rowsOf(page).nth(1).getByRole('checkbox').isChecked(), true);
  await clean(page);
});

test('a comparison that starts with a trace finds it ticked in the search', async () => {
  const page = await open(`#/trace/${named.quick}`);
  await page.getByRole('link', { name: 'Compare…' }).click();
  await page.getByRole('link', { name: 'Go to Search' }).click();
  await page.getByText('1 selected').waitFor();
  await page.locator('#filter').fill('service == "orders"');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^2 traces/ }).waitFor();
  await page.getByLabel(`Compare ${named.slow}`).check();
  await page.getByRole('link', { name: 'Compare', exact: true }).last().click();
  await page.locator('.sum', { hasText: 'slower' }).waitFor();
  await clean(page);
});

test('live rows stand still under the pointer', async () => {
  const page = await open('#/search?live=1');
  await rowsOf(page).nth(20).waitFor();
  await page.locator('table.requests').hover({ position: { x: 300, y: 200 } });
  const before = (await ids(page)).slice(0, 20);
  const fresh = request(777, Date.now() * 1000 - 2000, random(5)).map((span) => ({ ...span, traceId: '00000000feed0001' }));
  await send(server.url, fresh);
  await page.getByText(/^Live: 1 new traces wait/).waitFor({ timeout: 6000 });
  assert.deepEqual((await ids(page)).slice(0, 20), before);
  await page.mouse.move(5, 5);
  await page.locator('#request-00000000feed0001').waitFor({ timeout: 6000 });
  await clean(page);
});

test('a box of the heatmap leads to its traces', async () => {
  const page = await open('#/latency?filter=' + encodeURIComponent('name == "POST /checkout"'));
  const heat = page.getByRole('application');
  await heat.waitFor();
  const bounds = await heat.boundingBox();
  await page.mouse.move(bounds.x + 66, bounds.y + 10);
  await page.mouse.down();
  await page.mouse.move(bounds.x + bounds.width - 14, bounds.y + bounds.height - 28, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('region', { name: 'What is different' }).getByRole('link', { name: 'View traces' }).click();
  await page.getByRole('heading', { name: /^2 traces/ }).waitFor();
  await clean(page);
});

test('times say their zone, and can be in UTC', async () => {
  const page = await open(`#/trace/${named.quick}`, { timezone: 'Asia/Kolkata' });
  const line = page.locator('.facts .line');
  await line.getByText('UTC+5:30').waitFor();
  const local = await line.textContent();
  await page.getByRole('button', { name: 'UTC+5:30' }).click();
  await page.getByRole('button', { name: 'UTC', exact: true }).waitFor();
  await page.waitForFunction((local) => document.querySelector('.facts .line')?.textContent !== local, local);
  assert.ok(!(await line.textContent()).includes('+5:30'));
  await clean(page);
});

test('files are opened by dropping them', async () => {
  const page = await open('#/search');
  const otlp = { resourceSpans: [{ resource: { attributes: [{ key: 'service.name', value: { stringValue: 'dropped' } }] }, scopeSpans: [{ spans: [{ traceId: '5af7183fb1d4cf5f0a1b2c3d4e5f6071', spanId: '00f067aa0ba902b7', name: 'in', startTimeUnixNano: '1764000000123456789', endTimeUnixNano: '1764000000123457000', attributes: [{ key: 'note', value: { stringValue: 'Needle in a file' } }] }] }] }] };
  await page.evaluate((content) => {
    const data = new DataTransfer();
    data.items.add(new File([content], 'otlp.json', { type: 'application/json' }));
    for (const type of ['dragover', 'drop']) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
  }, JSON.stringify(otlp));
  await page.getByText('from the file otlp.json').waitFor();
  await page.getByRole('heading', { name: 'dropped in' }).waitFor();
  await page.getByPlaceholder(/^Find/).fill('needle');
  await page.getByText('1 found').waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'File no longer open' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Retry' }).count(), 0);
  await clean(page);
});

test('the page recovers by itself when the server is there again', async () => {
  const page = await open(path('service == "orders"'));
  await rowsOf(page).nth(1).waitFor();
  const block = (route) => route.abort();
  await page.route('**/api/blkkin/v1/**', block);
  await page.keyboard.press('r');
  await page.getByText('Can’t reach the server.').waitFor();
  assert.equal(await page.getByRole('alert').count(), 1);
  assert.equal(await rowsOf(page).count(), 2);
  await page.unroute('**/api/blkkin/v1/**', block);
  await page.getByText('Can’t reach the server.').waitFor({ state: 'hidden', timeout: 8000 });
  await clean(page);
});
