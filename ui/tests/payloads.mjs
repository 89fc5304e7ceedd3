// Texts that would run a script or load something if a page interpreted them: each calls `__ran()` or fetches from
// another host.

const PLAIN = [
  '<script>__ran()</script>',
  '<img src=x onerror=__ran()>',
  '<svg onload=__ran()>',
  '<svg><script>__ran()</script></svg>',
  '"><script>__ran()</script>',
  "'><img src=x onerror=__ran()>",
  '</title><script>__ran()</script>',
  '</textarea><script>__ran()</script>',
  '</style><script>__ran()</script>',
  '<iframe srcdoc="<script>parent.__ran()</script>">',
  '<iframe src="javascript:parent.__ran()">',
  '<a href="javascript:__ran()">x</a>',
  'javascript:__ran()',
  'data:text/html,<script>parent.__ran()</script>',
  '<body onload=__ran()>',
  '<details open ontoggle=__ran()>',
  '<video><source onerror=__ran()></video>',
  '<input autofocus onfocus=__ran()>',
  '<marquee onstart=__ran()>',
  '<object data="javascript:__ran()">',
  '<embed src="javascript:__ran()">',
  '<math><mtext></p><img src onerror=__ran()></mtext></math>',
  '<style>@import "//evil.example/x.css";</style>',
  '<link rel=stylesheet href=//evil.example/x.css>',
  '<base href=//evil.example/>',
  '<meta http-equiv=refresh content="0;url=javascript:__ran()">',
  '<form action=javascript:__ran()><button>x</button></form>',
  '{@html "<img src=x onerror=__ran()>"}',
  '{{constructor.constructor("__ran()")()}}',
  '${__ran()}',
  '`-__ran()-`',
  '\\u003cscript\\u003e__ran()\\u003c/script\\u003e',
  '&lt;script&gt;__ran()&lt;/script&gt;',
  '<!--<img src="--><img src=x onerror=__ran()//">',
  '<noscript><p title="</noscript><img src=x onerror=__ran()>">',
  '__proto__',
  'constructor',
  '\u202e\u0000\ud83d\ude00 <b>bold</b>\n\u2028',
];

/** Text that closes an attribute, comment, script or address. */
const BEFORE = ['"', "'>", '-->', '</script>', 'https://osd.example/?q='];

/** Each payload alone, and after each closing text. Those without a prefix come first. */
export const PAYLOADS = [...PLAIN, ...BEFORE.flatMap((before) => PLAIN.map((payload) => before + payload))];
export const PLAIN_COUNT = PLAIN.length;
