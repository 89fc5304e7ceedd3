// Builds the files in dist/. Their names are fixed, because the server embeds them.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { env } from 'node:process';
import { defineConfig } from 'vitest/config';

const output = {
  entryFileNames: 'app.js',
  chunkFileNames: '[name].js',
  assetFileNames: 'app[extname]',
};

export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    rolldownOptions: { output },
  },
  worker: {
    format: 'es',
    rolldownOptions: { output: { ...output, entryFileNames: 'worker.js' } },
  },
  test: { include: ['src/**/*.test.ts'] },
  server: {
    host: '127.0.0.1',
    proxy: { '/api': env.BLKKIN_URL ?? 'http://127.0.0.1:9411' },
  },
});
