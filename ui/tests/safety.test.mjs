// Spans are data: whatever stands in them, no script runs, nothing is fetched from elsewhere, and the policy refuses
// nothing because nothing was tried.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { send } from './data.mjs';
import { open, setUp, tearDown } from './support.mjs';

const PAYLOADS = [
  '<script>__ran()</script>',
  '<img src=x onerror=__ran()>',
  '<svg onload=__ran()>',
  '<svg><script>__ran()</script></svg>',
  '"><script>__ran()</script>',
  "'><img src=x onerror=__ran()>",
  '</title><script>__ran()</script>',
  '</textarea><script>__ran()</script>',
  '</style><script>__ran()</script>',
  '<iframe srcdoc="<script>parent.__ran()</script>">',
  '<iframe src="javascript:parent.__ran()">',
  '<a href="javascript:__ran()">x</a>',
  'javascript:__ran()',
  'data:text/html,<script>parent.__ran()</script>',
  '<body onload=__ran()>',
  '<details open ontoggle=__ran()>',
  '<video><source onerror=__ran()></video>',
  '<input autofocus onfocus=__ran()>',
  '<marquee onstart=__ran()>',
  '<object data="javascript:__ran()">',
  '<embed src="javascript:__ran()">',
  '<math><mtext></p><img src onerror=__ran()></mtext></math>',
  '<style>@import "//evil.example/x.css";</style>',
  '<link rel=stylesheet href=//evil.example/x.css>',
  '<base href=//evil.example/>',
  '<meta http-equiv=refresh content="0;url=javascript:__ran()">',
  '<form action=javascript:__ran()><button>x</button></form>',
  '{@html "<img src=x onerror=__ran()>"}',
  '{{constructor.constructor("__ran()")()}}',
  '${__ran()}',
  '`-__ran()-`',
  '\\u003cscript\\u003e__ran()\\u003c/script\\u003e',
  '&lt;script&gt;__ran()&lt;/script&gt;',
  '<!--<img src="--><img src=x onerror=__ran()//">',
  '<noscript><p title="</noscript><img src=x onerror=__ran()>">',
  '__proto__',
  'constructor',
  '\u202e\u0000\ud83d\ude00 <b>bold</b>\n\u2028',
];

const start = Date.now() * 1000 - 60_000_000;
const SPANS = PAYLOADS.flatMap((payload, at) => {
  const traceId = (0xbad000 + at).toString(16).padStart(16, '0');
  const base = { traceId, timestamp: start + at * 1000, duration: 900, localEndpoint: { serviceName: payload }, annotations: [{ timestamp: start + at * 1000 + 5, value: payload }], tags: { [payload || 'x']: payload, error: payload } };
  return [
    { ...base, id: '1', name: payload },
    { ...base, id: '2', parentId: '1', kind: 'CLIENT', name: payload, remoteEndpoint: { serviceName: payload } },
    { ...base, id: '3', parentId: '2', kind: 'SERVER', name: `${payload} again`, localEndpoint: { serviceName: `${payload} two` } },
  ];
});

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
  for (const at of PAYLOADS.keys()) {
    const traceId = (0xbad000 + at).toString(16).padStart(16, '0');
    await page.goto(`${server.url}/#/trace/${traceId}?span=0000000000000002`);
    const detail = page.getByRole('complementary', { name: 'Span' });
    await detail.getByRole('heading', { name: 'Annotations' }).waitFor();
    await page.keyboard.press('v');
    await page.getByRole('region', { name: 'Time inside services' }).waitFor();
  }
  await page.harmless();
  await page.end();
});

test('filters, ids and other parts of addresses', async () => {
  const page = await watched('#/search');
  for (const payload of PAYLOADS) {
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
  // Quoted as it has to be, the filter finds that service.
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
