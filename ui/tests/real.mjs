// Runs the real `blkkin server` on a free port, with a temporary store that is deleted afterwards. Start at start().

import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The server reads its store before it listens. */
const START_MS_MAX = 60_000;
const END_MS_MAX = 30_000;

/** Starts the program on a port with further options. Its data is in a new folder unless one is given. */
export async function start(program, { options = [], folder = null, port = 0 } = {}) {
  const own = folder ?? (await mkdtemp(join(tmpdir(), 'blkkin-pages-')));
  const nowhere = ['--otlp-http', 'off', '--otlp-grpc', 'off', '--scribe', 'off'];
  const child = spawn(program, ['server', '--data', own, '--listen', `127.0.0.1:${port}`, ...nowhere, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  // The server ends with the tests, even if they crash.
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  let told = '';
  const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal)));
  const listening = new Promise((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text) => {
      told += text;
      const place = /listening on (\S+): Zipkin/.exec(told);
      if (place) resolve(place[1]);
    });
    child.once('error', reject);
    void ended.then((how) => reject(new Error(`${program} ended with ${how}: ${told}`)));
  });
  async function clear() {
    process.off('exit', kill);
    if (folder === null) await rm(own, { recursive: true, force: true });
  }
  try {
    const address = await within(listening, START_MS_MAX, () => `${program} does not start: ${told}`);
    return {
      url: `http://${address}`,
      folder: own,
      /** Stops the server with SIGTERM, as an operator would, and checks its exit status. */
      async stop() {
        child.kill('SIGTERM');
        const how = await within(ended, END_MS_MAX, () => `${program} does not end: ${told}`).finally(kill);
        await clear();
        if (how !== 0 || told.includes('panicked')) throw new Error(`${program} ended with ${how}: ${told}`);
      },
    };
  } catch (error) {
    kill();
    await clear();
    throw error;
  }
}

async function within(promise, ms, words) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(words())), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
