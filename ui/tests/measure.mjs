// Measurements for `cargo xtask bench ui` in a real Chromium, one task per run: `node measure.mjs
// '{"task":"trace",…}'`. Prints the results as JSON: a list of { what, unit, figures, server }, where `server` is the
// time in milliseconds that each figure waited for an answer. Each figure is from a new window without caches.

import assert from 'node:assert/strict';
import { large, send } from './data.mjs';
import { open, setUp, tearDown } from './support.mjs';

const SMALL = 0x1a46e;
const WIDE = 0x1a46f;
const SHOWN_MAX = 100_000;

const hex = (number) => number.toString(16).padStart(16, '0');
const ago = (seconds) => (Date.now() - seconds * 1000) * 1000;

// Predicates that run in the page and are true once the awaited content is painted.
const WATERFALL = `() => document.querySelector('.bars canvas')?.width > 100 && document.querySelectorAll('[role=row][aria-level]').length > 10`;
const REQUESTS = `() => document.querySelector('.plot canvas')?.width > 100 && document.querySelector('table.requests tbody tr') !== null`;
/** Zipkin's page has no test ids: each row has the text of its duration, and nine other places show times. */
const OF_ZIPKIN = `() => document.querySelector('main')?.textContent.match(/\\d(ms|μs|µs)/g)?.length > 20`;

/** Figures by name, in the order of measurement. */
class Found {
  #all = new Map();

  add(what, unit, figure, server) {
    if (!this.#all.has(what)) this.#all.set(what, { what, unit, figures: [], server: [] });
    const row = this.#all.get(what);
    row.figures.push(figure);
    if (server !== undefined) row.server.push(server);
  }

  rows() {
    return [...this.#all.values()];
  }
}

/** Opens a page. Returns the milliseconds until the awaited content was painted, and the part of them spent waiting for
 * the server's answer. Time starts with the browser's navigation. */
async function opened(url, path, seen, answer) {
  let server = 0;
  const page = await open(path, {
    url,
    route: async (page) => {
      page.on('requestfinished', (request) => {
        const { requestStart, responseEnd } = request.timing();
        if (request.url().includes(answer)) server = Math.max(server, responseEnd - requestStart);
      });
      await page.addInitScript(`
        globalThis.__painted = new Promise((done) => {
          const seen = ${seen};
          // Content found in a frame is painted at the end of that frame, thus before the next one.
          const look = () => (seen() ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look));
          requestAnimationFrame(look);
        });`);
    },
  });
  const ms = await page.evaluate(() => globalThis.__painted);
  return { page, ms, server: () => server };
}

async function finish(page) {
  assert.deepEqual(await page.odd(), []);
  await page.end();
}

/** Returns the milliseconds from a key to the next frame. */
const keyed = (page, key) =>
  page.evaluate(
    (key) =>
      new Promise((resolve) => {
        const began = performance.now();
        const target = document.activeElement ?? document.body;
        target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
        requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
      }),
    key,
  );

/** Scrolls for `ms` milliseconds and returns the duration of each frame in milliseconds. */
const scrolled = (page, ms) =>
  page.evaluate(
    (ms) =>
      new Promise((resolve) => {
        const scroller = document.querySelector('.scroller');
        const frames = [];
        const began = performance.now();
        let last = began;
        const step = (now) => {
          frames.push(now - last);
          last = now;
          // Each frame shows rows that the previous one did not.
          scroller.scrollTop = (scroller.scrollTop + 1777) % (scroller.scrollHeight - scroller.clientHeight);
          if (now - began < ms) requestAnimationFrame(step);
          else resolve(frames.slice(1));
        };
        requestAnimationFrame(step);
      }),
    ms,
  );

const isDrawn = (page) =>
  page.evaluate(() => {
    const canvas = document.querySelector('.bars canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return new Set(pixels).size > 3;
  });

const rowsShown = (page) => page.evaluate(() => Number(document.querySelector('[role=treegrid]').getAttribute('aria-rowcount')));

/** Sends the two requests that are opened later. */
async function sendLarge({ url, small, wide }) {
  await send(url, large(small, ago(60)));
  await send(url, large(wide, ago(90), WIDE));
  return [];
}

async function trace({ url, small, wide, rounds }) {
  const found = new Found();
  for (let round = 0; round < rounds; round += 1) {
    const { page, ms, server } = await opened(url, `#/trace/${hex(SMALL)}`, WATERFALL, '/outline/');
    assert.ok(await isDrawn(page), 'nothing is drawn');
    assert.equal(await rowsShown(page), small + 1);
    found.add('paint', 'ms', ms, server());
    await page.getByRole('treegrid').focus();
    for (const key of ['-', '+']) found.add(key === '-' ? 'fold' : 'unfold', 'ms', await keyed(page, key));
    assert.equal(await rowsShown(page), small + 1);
    await page.keyboard.press('Home');
    found.add('fold one', 'ms', await keyed(page, 'ArrowLeft'));
    assert.equal(await rowsShown(page), 2);
    await keyed(page, 'ArrowRight');
    await page.keyboard.press('Escape');
    const frames = await scrolled(page, 2000);
    found.add('scroll', '/s', (frames.length * 1000) / frames.reduce((sum, frame) => sum + frame, 0));
    found.add('longest frame', 'ms', Math.max(...frames));
    await finish(page);

    const again = await opened(url, `#/trace/${hex(WIDE)}`, WATERFALL, '/outline/');
    found.add('wide paint', 'ms', again.ms, again.server());
    const words = `Cut here: ${SHOWN_MAX.toLocaleString('en')} of ${wide.toLocaleString('en')}`;
    await again.page.getByRole('treegrid').focus();
    await again.page.keyboard.press('End');
    const isMarked = await again.page.getByText(words).waitFor({ timeout: 5000 }).then(() => 1, () => 0);
    found.add('wide cut', '', isMarked);
    await finish(again.page);
  }
  return found.rows();
}

/** Returns a filter: the first service of the list, and at least the 99th percentile of its durations. */
async function chosen(url) {
  const ask = async (path, params) => {
    const answer = await fetch(`${url}/api/blkkin/v1/${path}?${new URLSearchParams(params)}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  const [service] = (await ask('fields', { of: 'services', limit: 1 })).values;
  const filter = `service == ${JSON.stringify(service)}`;
  const { percentilesNs } = await ask('latency', { filter });
  return `${filter} && duration >= ${percentilesNs[99]}ns`;
}

/** Types a filter, presses Enter, and returns the milliseconds until the result is painted. */
const applied = (page, filter) =>
  page.evaluate(
    (filter) =>
      new Promise((resolve) => {
        const input = document.getElementById('filter');
        input.focus();
        input.value = filter;
        input.dispatchEvent(new Event('input', { bubbles: true }));
        const began = performance.now();
        input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
        const isAnswered = () =>
          performance.getEntriesByType('resource').some((entry) => entry.startTime >= began && entry.responseEnd > 0 && entry.name.includes('/search?'));
        const look = () => {
          const isThere = isAnswered() && document.querySelector('.busy.isBusy') === null && document.querySelector('table.requests tbody tr') !== null;
          requestAnimationFrame(isThere ? () => resolve(performance.now() - began) : look);
        };
        requestAnimationFrame(look);
      }),
    filter,
  );

async function search({ url, rounds }) {
  const filter = await chosen(url);
  const given = encodeURIComponent(filter);
  const pages = {
    'last hour': '#/search',
    'all times': '#/search?range=all',
    'last hour, slowest first': '#/search?order=slowest',
    'all times, slowest first': '#/search?range=all&order=slowest',
    'all times, service and duration': `#/search?range=all&filter=${given}`,
    'all times, service and duration, slowest first': `#/search?range=all&order=slowest&filter=${given}`,
  };
  const found = new Found();
  for (let round = 0; round < rounds; round += 1) {
    for (const [what, path] of Object.entries(pages)) {
      const { page, ms, server } = await opened(url, path, REQUESTS, '/search?');
      found.add(`${what}: rows`, 'ms', ms, server());
      // The page is usable when it responds to a key, not when rows are visible.
      await keyed(page, 'j');
      const { at, isChosen } = await page.evaluate(() => ({ at: performance.now(), isChosen: document.activeElement?.id.startsWith('request-') }));
      assert.ok(isChosen, 'the key j chooses no request');
      found.add(`${what}: interactive`, 'ms', at);
      if (!path.includes('filter')) found.add(`${what}: filter applied`, 'ms', await applied(page, filter));
      await finish(page);
    }
  }
  return found.rows();
}

/** Opens requests of the given sizes alternately in Zipkin's page and in BlkKin's. */
async function beside({ url, zipkin, spans, rounds }) {
  const id = (count) => 0xb0000 + count;
  for (const count of spans) {
    for (const each of [url, zipkin]) await send(each, large(count, ago(60), id(count)), 1000);
  }
  // Zipkin acknowledges spans before they can be read.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const found = new Found();
  for (let round = 0; round < rounds; round += 1) {
    for (const count of spans) {
      const ours = await opened(url, `#/trace/${hex(id(count))}`, WATERFALL, '/outline/');
      found.add(`${count} spans: blkkin`, 'ms', ours.ms, ours.server());
      await finish(ours.page);
      const theirs = await opened(zipkin, `zipkin/traces/${hex(id(count))}`, OF_ZIPKIN, '/api/v2/trace/');
      found.add(`${count} spans: Zipkin`, 'ms', theirs.ms, theirs.server());
      await theirs.page.end();
    }
  }
  return found.rows();
}

const TASKS = { send: sendLarge, trace, search, beside };
const options = JSON.parse(process.argv[2]);
await setUp({ url: options.url });
try {
  console.log(JSON.stringify(await TASKS[options.task](options)));
} finally {
  await tearDown();
}
