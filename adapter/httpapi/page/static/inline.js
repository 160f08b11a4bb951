// Markdown inside a line: bold, italic, struck out, code, links and bare addresses.

const MAX_DEPTH = 6;

const RULES = [
  { pattern: /(`+)([^`]|[^`].*?[^`])\1(?!`)/s, make: (m) => ({ type: 'code', text: m[2].replace(/^ (.+) $/s, '$1') }) },
  { pattern: /\[([^\[\]]*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\)[^\s()]*)*)>?(?:\s+"[^"]*")?\s*\)/, make: (m, depth) => link(m[2], inline(m[1], depth), m[0]) },
  { pattern: /\*\*(?=\S)([\s\S]*?\S)\*\*(?!\*)/, make: (m, depth) => ({ type: 'strong', children: inline(m[1], depth) }) },
  { pattern: /(?<![\w_])__(?=\S)([\s\S]*?\S)__(?![\w_])/, make: (m, depth) => ({ type: 'strong', children: inline(m[1], depth) }) },
  { pattern: /~~(?=\S)([\s\S]*?\S)~~/, make: (m, depth) => ({ type: 'del', children: inline(m[1], depth) }) },
  { pattern: /(?<![\w*])\*(?=[^\s*])([^*]*?[^\s*])\*(?![\w*])/, make: (m, depth) => ({ type: 'em', children: inline(m[1], depth) }) },
  { pattern: /(?<![\w_])_(?=[^\s_])([^_]*?[^\s_])_(?![\w_])/, make: (m, depth) => ({ type: 'em', children: inline(m[1], depth) }) },
  { pattern: /https?:\/\/[^\s<>"'`\\]*[^\s<>"'`\\.,:;!?)\]*_]/, make: (m) => link(m[0], [text(m[0])], m[0]) },
  { pattern: /\\([\\`*_{}[\]()#+\-.!|~>])/, make: (m) => text(m[1]) },
  { pattern: /(?<! ) {2,}\n|\\\n/, make: () => ({ type: 'break' }) },
];

/** parseInline returns the nodes of one paragraph, heading or cell. */
export function parseInline(source) {
  return inline(source, 0);
}

/** safeHref returns the address of a link, or null when it is not plain http or https. */
export function safeHref(href) {
  try {
    const url = new URL(href);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}

function inline(source, depth) {
  if (depth > MAX_DEPTH) return [text(source)];
  const nodes = [];
  const found = RULES.map((rule) => ({ rule, match: undefined }));
  let at = 0;
  while (at < source.length) {
    const next = nearest(found, source, at);
    if (!next) break;
    if (next.index > at) nodes.push(text(source.slice(at, next.index)));
    nodes.push(next.rule.make(next.match, depth + 1));
    at = next.index + next.match[0].length;
  }
  if (at < source.length) nodes.push(text(source.slice(at)));
  return nodes;
}

/** nearest picks the earliest match at or after a position; each rule searches again only past its last match. */
function nearest(found, source, at) {
  let best;
  for (const entry of found) {
    if (entry.match === undefined || (entry.match && entry.match.index < at)) {
      const pattern = new RegExp(entry.rule.pattern.source, `${entry.rule.pattern.flags}g`);
      pattern.lastIndex = at;
      entry.match = pattern.exec(source);
    }
    if (entry.match && (!best || entry.match.index < best.index)) {
      best = { rule: entry.rule, match: entry.match, index: entry.match.index };
    }
  }
  return best;
}

function link(href, children, source) {
  const safe = safeHref(href);
  return safe ? { type: 'link', href: safe, children } : text(source);
}

function text(value) {
  return { type: 'text', text: value };
}
