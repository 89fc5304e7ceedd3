// Keyboard shortcuts: their descriptions, and the rule that keys typed into a field are no shortcuts.

export interface KeyWords {
  keys: string[];
  words: string;
}

export const EVERYWHERE: KeyWords[] = [
  { keys: ['?'], words: 'show keyboard shortcuts' },
  { keys: ['/'], words: 'focus the search box, or find in a trace' },
  { keys: ['g', 's'], words: 'go to search' },
  { keys: ['g', 'm'], words: 'go to the map' },
  { keys: ['g', 'l'], words: 'go to latency' },
  { keys: ['g', 'c'], words: 'go to compare' },
  { keys: ['r'], words: 'refresh' },
  { keys: ['t'], words: 'switch theme' },
  { keys: ['Esc'], words: 'close, or clear the selection' },
];

export const OF_PAGES: Record<string, { title: string; keys: KeyWords[] }> = {
  search: {
    title: 'Search',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous trace (also ↓ ↑)' },
      { keys: ['Enter'], words: 'open the trace' },
      { keys: ['x'], words: 'select to compare' },
      { keys: ['o'], words: 'newest or slowest first' },
      { keys: ['l'], words: 'live: follow new traces' },
      { keys: ['p'], words: 'pause or resume' },
    ],
  },
  trace: {
    title: 'Trace',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous span (also ↓ ↑)' },
      { keys: ['←', '→'], words: 'fold or unfold; to the parent, to the first child' },
      { keys: ['w', 's'], words: 'zoom in, zoom out' },
      { keys: ['a', 'd'], words: 'pan left, pan right' },
      { keys: ['f'], words: 'zoom to span' },
      { keys: ['0'], words: 'fit the whole trace' },
      { keys: ['n', 'N'], words: 'next or previous match' },
      { keys: ['e'], words: 'next span where a failure began' },
      { keys: ['b', 'B'], words: 'next or previous band of own time' },
      { keys: ['c'], words: 'show the critical path' },
      { keys: ['v'], words: 'waterfall or layers' },
      { keys: ['+', '−'], words: 'unfold all, fold all' },
      { keys: ['Home', 'End'], words: 'first, last span' },
    ],
  },
  latency: {
    title: 'Latency',
    keys: [
      { keys: ['← ↑ → ↓'], words: 'move over the heatmap' },
      { keys: ['Shift', '← ↑ → ↓'], words: 'select' },
      { keys: ['Enter'], words: 'compare the selection with the rest' },
      { keys: ['Esc'], words: 'clear selection' },
    ],
  },
  map: {
    title: 'Map',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous connection (also ↓ ↑)' },
      { keys: ['Enter'], words: 'view its traces' },
      { keys: ['/'], words: 'find a service' },
      { keys: ['w', 's'], words: 'zoom in, zoom out' },
      { keys: ['0'], words: 'fit the whole map' },
    ],
  },
  compare: { title: 'Compare', keys: [{ keys: ['c'], words: 'show the critical paths' }] },
};

/** Whether a key is no shortcut: typed into a field or a dialog, meant for the browser, or handled already. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return true;
  const target = event.target as HTMLElement | null;
  if (target === null || !(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest('dialog[open]') !== null;
}

/** Whether the focus is on a button, a link or an option, which has keys of its own. */
export function isOnControl(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target instanceof HTMLElement && target.closest('a, button, summary, [role="option"]') !== null;
}
