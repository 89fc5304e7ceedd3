// What browser tests share: a server, a real Chromium without a window, and pages that note all that should not happen in
// them. The server is that at BLKKIN_URL; else the program that BLKKIN_SERVER names, started for each file of tests with
// nothing in it; else the one in fake.mjs.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import * as fake from './fake.mjs';
import * as real from './real.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** `blkkin`, if it is to be started. */
export const PROGRAM = process.env.BLKKIN_SERVER;

let browser;
let server;

/** Starts all of it, or the browser alone where there is a server. */
export async function setUp({ url = process.env.BLKKIN_URL } = {}) {
  if (url) server = { url, stop() {} };
  else if (PROGRAM) server = await real.start(PROGRAM);
  else server = await fake.start(new fake.Store());
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--force-color-profile=srgb'],
  });
  return server;
}

export async function tearDown() {
  await browser?.close();
  await server?.stop();
}

/** A page with an eye on refused policies, errors and dialogs. */
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
  // What only holds on a fast machine is found by `SLOWER=8 npm run test:browser`.
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

/** Serious and critical findings, in a line each. */
export async function findings(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations
    .filter((each) => each.impact === 'serious' || each.impact === 'critical')
    .map((each) => `${each.impact} ${each.id}: ${each.nodes.slice(0, 4).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
}
