// States of pages: loading, no results, refusals, a required token, dropped records. The tests replace the server's
// answers.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findings, open, setUp, tearDown } from './support.mjs';

before(setUp);
after(tearDown);

const PAGES = { search: '#/search', latency: '#/latency', map: '#/map', trace: '#/trace/77', compare: '#/compare?a=1&b=2' };
const EMPTY = {
  search: { requests: [] },
  latency: { spans: 0, percentilesNs: {}, histogram: [], examples: [] },
  links: { links: [] },
  heatmap: { startNs: '0', columnNs: 1, columns: 120, spans: 0, rows: [], cells: [] },
  counters: { collector: {}, store: { kept: 0, accepted: 0 }, server: {} },
  fields: { values: [] },
};

const answering = (answer) => (page) =>
  page.route('**/api/blkkin/v1/**', async (route) => {
    const name = new URL(route.request().url()).pathname.split('/')[4];
    const given = await answer(name, route.request());
    if (given === undefined) return route.fulfill({ json: EMPTY[name] ?? {} });
    return route.fulfill(given);
  });

async function clean(page) {
  assert.deepEqual(await findings(page), []);
  assert.deepEqual((await page.odd()).filter((each) => !each.startsWith('error: Failed to load')), []);
  await page.end();
}

test('nothing there: says so, and where else to look', async () => {
  const route = answering(() => undefined);
  let page = await open(PAGES.search, { route });
  await page.getByRole('heading', { name: 'No traces in the last hour' }).waitFor();
  await page.getByRole('link', { name: 'Search all time' }).click();
  await page.getByRole('heading', { name: 'No traces in all stored data' }).waitFor();
  await clean(page);
  page = await open('#/search?service=x', { route });
  await page.getByRole('heading', { name: 'No traces match in the last hour' }).waitFor();
  await clean(page);
  page = await open(PAGES.map, { route });
  await page.getByRole('heading', { name: 'No calls between services in the last hour' }).waitFor();
  await clean(page);
  page = await open(PAGES.latency, { route });
  await page.getByRole('heading', { name: /No spans with a duration/ }).waitFor();
  await clean(page);
});

test('refused: the server’s words are shown on each page', async () => {
  for (const [name, path] of Object.entries(PAGES)) {
    const route = answering((asked) => (asked === 'counters' ? undefined : { status: 503, body: 'the store is <b>busy</b>' }));
    const page = await open(path, { route });
    await page.getByRole('alert').first().waitFor();
    const words = await page.locator('pre.words').first().textContent();
    assert.equal(words, 'the store is <b>busy</b>', name);
    await clean(page);
  }
});

test('not found, too slow, no server', async () => {
  let page = await open(PAGES.trace, { route: answering((asked) => (asked === 'outline' ? { status: 404, body: '0000000000000077 not found' } : undefined)) });
  await page.getByRole('heading', { name: 'Not found' }).waitFor();
  await clean(page);
  page = await open(PAGES.latency, { route: answering((asked) => (asked === 'latency' ? { status: 504, body: 'more than 11 s' } : undefined)) });
  await page.getByText('Try a shorter time range').waitFor();
  await clean(page);
  page = await open(PAGES.search, { route: (page) => page.route('**/api/blkkin/v1/search**', (route) => route.abort()) });
  await page.getByText('The server cannot be reached.').waitFor();
  await page.end();
});

test('slow answers: says what is waited for, and a later question takes the place of an earlier one', async () => {
  let release;
  const wait = new Promise((resolve) => { release = resolve; });
  const page = await open(PAGES.search, {
    route: answering(async (name) => {
      if (name === 'search') await wait;
      return undefined;
    }),
  });
  await page.getByText('Searching…').waitFor();
  release();
  await page.getByRole('heading', { name: /^No traces in/ }).waitFor();
  await clean(page);
});

test('a token is asked for, sent, and kept in this tab alone', async () => {
  const seen = [];
  const route = answering((name, request) => {
    const given = request.headers().authorization;
    if (given !== undefined) seen.push(given);
    return given === 'Bearer right' ? undefined : { status: 401, body: 'a token is needed' };
  });
  const page = await open(PAGES.search, { route });
  await page.getByRole('heading', { name: 'This server needs a token' }).waitFor();
  assert.deepEqual(await findings(page), []);
  await page.getByLabel('Token').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('did not accept').waitFor();
  await page.getByLabel('Token').fill('right');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^No traces in/ }).waitFor();
  assert.ok(seen.includes('Bearer wrong') && seen.includes('Bearer right'));
  assert.deepEqual(await page.evaluate(() => [sessionStorage.getItem('blkkin-token'), Object.values({ ...localStorage }).join()]), ['right', '']);
  assert.ok(!(await page.url()).includes('right'));
  await clean(page);
});

test('what a worker reads is asked for with the token too', async () => {
  const seen = [];
  const page = await open(PAGES.trace, {
    route: async (page) => {
      await page.addInitScript(() => sessionStorage.setItem('blkkin-token', 'secret'));
      await answering((name, request) => {
        if (name !== 'outline') return undefined;
        seen.push(request.headers().authorization);
        return { status: 404, body: 'no' };
      })(page);
    },
  });
  await page.getByRole('alert').first().waitFor();
  assert.equal(seen[0], 'Bearer secret');
  await page.end();
});

test('dropped records are said in the header, and while following', async () => {
  let dropped = 3;
  const route = answering((name) => {
    if (name !== 'counters') return undefined;
    const time = (minutes, seconds) => String(BigInt(new Date(2026, 10, 22, 10, minutes, seconds).getTime()) * 1_000_000n);
    const drops = [
      { place: 'collector.http', what: 'spansDropped', count: dropped, firstNs: time(3, 12), lastNs: time(3, 50) },
      { place: 'collector.grpc', what: 'spansDropped', count: 2, firstNs: time(4, 0), lastNs: time(4, 40) },
    ];
    return { json: { collector: {}, store: { kept: 9, accepted: 12, lost: 0 }, server: {}, drops } };
  });
  const page = await open('#/search?live=1', { route });
  await page.getByText('nothing dropped').waitFor();
  await page.getByRole('button', { name: 'Some data was dropped' }).click();
  await page.getByRole('row', { name: /^5 invalid spans rejected.*between .*10:03:12 and .*10:04:40$/ }).waitFor();
  dropped = 1003;
  await page.getByText(/1,000 invalid spans rejected.*last at 10:04:40/).waitFor({ timeout: 5000 });
  await clean(page);
});

test('a store that is in memory alone says so', async () => {
  for (const isDurable of [false, true]) {
    const counters = { collector: {}, store: { kept: 9, accepted: 12 }, server: {}, isDurable };
    const page = await open('#/search', { route: answering((name) => (name === 'counters' ? { json: counters } : undefined)) });
    await page.getByRole('button', { name: isDurable ? '9 spans' : '9 spans in memory', exact: true }).click();
    await page.getByText('9 spans stored, 12 received').waitFor();
    assert.equal(await page.getByText('lost when the server stops').count(), isDurable ? 0 : 1);
    await clean(page);
  }
});

test('live says how many came too fast', async () => {
  let turn = 0;
  const page = await open('#/search?live=1', {
    route: answering((name, request) => {
      if (name !== 'search') return undefined;
      const params = new URL(request.url()).searchParams;
      const made = (count, from) => Array.from({ length: count }, (_, at) => ({ traceId: (from + at).toString(16).padStart(16, '0'), startNs: String(1764000000000000000n + BigInt(from * 1000 - at)), durationNs: 1000, service: 's', name: 'n', spans: 1, errors: 0, services: [] }));
      if (params.get('after')) return { json: { requests: made(345, 500_000) } };
      turn += 1;
      return { json: { requests: made(200, turn < 3 ? 1000 : 900_000), next: 'n1.1' } };
    }),
  });
  await page.getByText('345 traces not shown (arrived too fast)').waitFor({ timeout: 8000 });
  await clean(page);
});

test('a cut request is marked as such', async () => {
  const json = {
    traceId: '0000000000000077', startNs: '1764000000000000000', durationNs: 1000, spans: 1_234_567, shown: 2,
    strings: ['guest', 'write', 'osd.1'], ids: ['0000000000000001', '0000000000000002'], parents: [-1, 0], starts: [0, 10], durations: [1000, null],
    services: [0, 2], names: [1, -1], kinds: [0, 1], errors: [0, 0], annotations: { rows: [], times: [], values: [], more: 7 },
  };
  const page = await open(PAGES.trace, { route: answering((name) => (name === 'outline' ? { json } : undefined)) });
  await page.getByText('Showing 2 of 1,234,567 spans.').waitFor();
  await page.getByText(/Cut here: showing 2 of 1,234,567/).waitFor();
  await page.getByText('7 events are not drawn').waitFor();
  await page.getByRole('button', { name: 'Show 250,000' }).waitFor();
  await clean(page);
});

test('answers that are none do no harm', async () => {
  for (const body of ['', '<html>', '[]', '{"ids":3}', 'null']) {
    const page = await open(PAGES.trace, { route: answering((name) => (name === 'outline' ? { body } : undefined)) });
    await page.getByRole('alert').first().waitFor();
    assert.match(await page.locator('pre.words').textContent(), /not JSON|not an outline/, body);
    await clean(page);
  }
});
