// Svelte's compiler options: runes everywhere, and all styles in one style sheet, since the server's policy forbids
// inline styles.
import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true, css: 'external' },
};
