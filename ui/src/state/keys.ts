// Keys: what they do is said in one place, and no page takes those that somebody types into a field.

export interface KeyWords {
  keys: string[];
  words: string;
}

export const EVERYWHERE: KeyWords[] = [
  { keys: ['?'], words: 'show these keys' },
  { keys: ['/'], words: 'go to the filter, or find in a request' },
  { keys: ['g', 's'], words: 'go to search' },
  { keys: ['g', 'm'], words: 'go to the map' },
  { keys: ['g', 'l'], words: 'go to latency' },
  { keys: ['g', 'c'], words: 'go to compare' },
  { keys: ['r'], words: 'ask the server again' },
  { keys: ['t'], words: 'turn light or dark' },
  { keys: ['Esc'], words: 'close, or take back what is selected' },
];

export const OF_PAGES: Record<string, { title: string; keys: KeyWords[] }> = {
  search: {
    title: 'Search',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous request (also ↓ ↑)' },
      { keys: ['Enter'], words: 'open it' },
      { keys: ['x'], words: 'take it for a comparison' },
      { keys: ['o'], words: 'newest or slowest first' },
      { keys: ['l'], words: 'live: follow what comes in' },
      { keys: ['p'], words: 'pause, and go on' },
    ],
  },
  trace: {
    title: 'Request',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous span (also ↓ ↑)' },
      { keys: ['←', '→'], words: 'fold or unfold; to the parent, to the first child' },
      { keys: ['w', 's'], words: 'nearer, farther' },
      { keys: ['a', 'd'], words: 'earlier, later' },
      { keys: ['f'], words: 'the chosen span fills the width' },
      { keys: ['0'], words: 'all of the request’s time' },
      { keys: ['n', 'N'], words: 'next or previous span that was found' },
      { keys: ['e'], words: 'next span that failed' },
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
      { keys: ['Enter'], words: 'what is different about what is selected' },
      { keys: ['Esc'], words: 'select nothing' },
    ],
  },
  map: {
    title: 'Map',
    keys: [
      { keys: ['j', 'k'], words: 'next or previous pair of services (also ↓ ↑)' },
      { keys: ['Enter'], words: 'the requests of the service that is called' },
    ],
  },
  compare: { title: 'Compare', keys: [{ keys: ['c'], words: 'show the critical paths' }] },
};

/** Whether somebody types, or a key is for the browser. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return true;
  const target = event.target as HTMLElement | null;
  if (target === null || !(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest('dialog[open]') !== null;
}

/** Whether a key would press a button or follow a link that has the focus. */
export function isOnControl(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target instanceof HTMLElement && target.closest('a, button, summary, [role="option"]') !== null;
}
