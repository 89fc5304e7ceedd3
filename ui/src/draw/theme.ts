// The colours of drawings, for light and dark. They equal those of app.css where both define them,
// except for errors. All can be told apart with colour-vision deficiency, and nothing is shown by
// colour alone.

export interface Theme {
  isDark: boolean;
  background: string;
  panel: string;
  line: string;
  faint: string;
  text: string;
  muted: string;
  accent: string;
  error: string;
  path: string;
  selection: string;
  shade: string;
  /** Colours of services. Hatching doubles their number. */
  colours: string[];
  /** Colours of own time by kind, in the order of OWN_KINDS. Patterns tell kinds apart, too. */
  own: string[];
  /** From the lowest count to the highest. */
  ramp: string[];
}

const LIGHT: Theme = {
  isDark: false,
  background: '#ffffff',
  panel: '#f5f6f8',
  line: '#d5dae1',
  faint: '#eceff3',
  text: '#1a1f26',
  muted: '#566070',
  accent: '#0b5cad',
  error: '#c23b00',
  path: '#111418',
  selection: 'rgba(11, 92, 173, 0.10)',
  shade: 'rgba(86, 96, 112, 0.16)',
  colours: ['#0072b2', '#c77700', '#00825c', '#ad4f8a', '#3d93c9', '#857400', '#5e6a7a', '#8a5a33'],
  own: ['#00825c', '#3f9a7c', '#c77700', '#ad4f8a', '#0072b2', '#857400', '#a8541b', '#3d86c0', '#5e6a7a', '#7d8896', '#8b8f96'],
  ramp: ['#a9cae7', '#86b4dc', '#639dcf', '#4085bf', '#226ca8', '#0d4a82', '#062c54'],
};

const DARK: Theme = {
  isDark: true,
  background: '#0e1116',
  panel: '#151a21',
  line: '#2b323c',
  faint: '#1c222a',
  text: '#e3e7ec',
  muted: '#9aa5b3',
  accent: '#6cb4ff',
  error: '#ff8552',
  path: '#ffffff',
  selection: 'rgba(108, 180, 255, 0.14)',
  shade: 'rgba(0, 0, 0, 0.5)',
  colours: ['#4ba6e0', '#e69f00', '#2fb88f', '#d584b4', '#9ad0f2', '#d6cb45', '#98a5b4', '#c69a6d'],
  own: ['#2fb88f', '#7fd6bd', '#e69f00', '#d584b4', '#4ba6e0', '#d6cb45', '#d8824a', '#9ad0f2', '#98a5b4', '#77828f', '#8a8f98'],
  ramp: ['#22527d', '#25648c', '#2f7089', '#5c9688', '#a3b56b', '#e2c75a', '#fff2a8'],
};

export const themeOf = (isDark: boolean): Theme => (isDark ? DARK : LIGHT);

/** Number of distinct appearances: 8 plain colours and the same 8 hatched. */
const PLACES = 16;

/** Assigns each service name a colour, hatched once all plain colours are taken. A name has the same colour in all
 * traces, unless a hash collision with another name of the trace moves it. */
export class Colours {
  readonly #places = new Map<string, number>();

  constructor(names: Iterable<string>) {
    const taken = new Set<number>();
    for (const name of [...new Set(names)].sort()) {
      const own = hash(name) % PLACES;
      // Prefers plain colours to hatched ones, and reuses none while another is free.
      const order = Array.from({ length: PLACES }, (_, step) => (step < 8 ? (own + step) % 8 : 8 + ((own + step) % 8)));
      const place = order.find((each) => !taken.has(each)) ?? own;
      taken.add(place);
      this.#places.set(name, place);
    }
  }

  colour(name: string, theme: Theme): string {
    return theme.colours[(this.#places.get(name) ?? 0) % theme.colours.length];
  }

  isHatched(name: string): boolean {
    return (this.#places.get(name) ?? 0) % PLACES >= 8;
  }
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}

/** Returns the relative luminance of a colour such as `#0072b2`, from 0 to 1. */
function lightOf(colour: string): number {
  const part = (at: number) => {
    const value = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

/** Returns the contrast ratio of two colours as WCAG defines it, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [a, b] = [lightOf(one), lightOf(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** Returns black or white, whichever has the higher contrast to a colour. */
export const inkOn = (colour: string): string => (contrast(colour, '#000000') > contrast(colour, '#ffffff') ? '#000000' : '#ffffff');

/** Returns the ramp colour of a count, on a logarithmic scale that ends at `most`. */
export function rampColour(theme: Theme, count: number, most: number): string {
  const place = most <= 1 ? 1 : Math.log(count) / Math.log(most);
  const last = theme.ramp.length - 1;
  return theme.ramp[Math.min(last, Math.max(0, Math.round(place * last)))];
}
