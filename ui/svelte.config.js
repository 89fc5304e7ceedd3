// How Svelte compiles: runes everywhere, and its styles in the one style sheet, as the server allows no others.
import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true, css: 'external' },
};
