// Setup for browser tests: a server, a headless Chromium, and pages that record errors and policy violations. The
// server is the one at BLKKIN_URL; else the program at BLKKIN_SERVER, started empty for each test file; else fake.mjs.

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import * as fake from './fake.mjs';
import * as real from './real.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const BROWSERS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

/** Path of `blkkin`, if the tests start it. */
export const PROGRAM = process.env.BLKKIN_SERVER;

let browser;
let server;

/** Starts the server and the browser, or only the browser if a server is running. */
export async function setUp({ url = process.env.BLKKIN_URL } = {}) {
  if (url) server = { url, stop() {} };
  else if (PROGRAM) server = await real.start(PROGRAM);
  else server = await fake.start(new fake.Store());
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? BROWSERS.find(existsSync),
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'],
  });
  return server;
}

export async function tearDown() {
  await browser?.close();
  await server?.stop();
}

/** Opens a page that records policy violations, errors and dialogs. */
export async function open(path, { dark = false, width = 1400, height = 900, scale = 1, route = null, url = server.url, timezone = 'UTC', touch = false } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: dark ? 'dark' : 'light',
    timezoneId: timezone,
    acceptDownloads: true,
    hasTouch: touch,
  });
  const page = await context.newPage();
  const odd = [];
  page.on('pageerror', (error) => odd.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    odd.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted ?Type|TrustedHTML|TrustedScript/i.test(message.text())) odd.push(`policy: ${message.text()}`);
  });
  await page.addInitScript(() => {
    globalThis.__violations = [];
    document.addEventListener('securitypolicyviolation', (event) => globalThis.__violations.push(`${event.violatedDirective} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
  });
  // `SLOWER=8 npm run test:browser` slows the CPU down and finds tests that only pass on a fast machine.
  if (process.env.SLOWER) {
    const devtools = await context.newCDPSession(page);
    await devtools.send('Emulation.setCPUThrottlingRate', { rate: Number(process.env.SLOWER) });
  }
  if (route) await route(page);
  await page.goto(`${url}/${path}`);
  page.odd = async () => [...odd, ...(await page.evaluate(() => globalThis.__violations))];
  page.end = () => context.close();
  return page;
}

/** Returns serious and critical findings of axe, one per line. */
export async function findings(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations
    .filter((each) => each.impact === 'serious' || each.impact === 'critical')
    .map((each) => `${each.impact} ${each.id}: ${each.nodes.slice(0, 4).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
}
