// The blocks of a small, safe Markdown, as plain objects; inline.js reads what is inside a line.
// No HTML is ever interpreted; what is not Markdown stays text.

const MAX_DEPTH = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const TABLE_RULE = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;

/**
 * parse returns the blocks of a text. Each has `type` and `raw`, the lines it came from: two blocks with
 * the same raw text render alike, so a view may keep what it has drawn while a text grows at its end.
 */
export function parse(text) {
  return parseLines(String(text).replace(/\r\n?/g, '\n').split('\n'), 0);
}

function parseLines(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === '') {
      at += 1;
      continue;
    }
    const { block, next } = readBlock(lines, at, depth);
    blocks.push({ ...block, raw: lines.slice(at, next).join('\n') });
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return readFence(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { block: { type: 'heading', level: heading[1].length, text: heading[2].trim().replace(/ #+$/, '') }, next: at + 1 };
  if (RULE.test(line)) return { block: { type: 'rule' }, next: at + 1 };
  if (depth < MAX_DEPTH && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readFence(lines, at, [, mark, language]) {
  const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next])) next += 1;
  const text = lines.slice(at + 1, next).join('\n');
  return { block: { type: 'code', language, text }, next: Math.min(next + 1, lines.length) };
}

function readQuote(lines, at, depth) {
  let next = at;
  while (next < lines.length && QUOTE.test(lines[next])) next += 1;
  const inner = lines.slice(at, next).map((line) => line.replace(QUOTE, ''));
  return { block: { type: 'quote', children: parseLines(inner, depth + 1) }, next };
}

function readList(lines, at, depth) {
  const [, , marker] = ITEM.exec(lines[at]);
  const ordered = marker.length > 1;
  const items = [];
  let next = at;
  while (next < lines.length) {
    const start = ITEM.exec(lines[next]);
    if (!start || start[2].length > 1 !== ordered || RULE.test(lines[next])) break;
    const item = readItem(lines, next, start);
    items.push(parseLines(item.lines, depth + 1));
    next = item.next;
  }
  const block = { type: 'list', ordered, items };
  if (ordered) block.start = Number.parseInt(marker, 10);
  return { block, next };
}

/** readItem takes the lines of one list item: its first, and what is indented below it. */
function readItem(lines, at, [, indent, marker, gap, rest]) {
  const inside = indent.length + marker.length + Math.min(gap.length || 1, 4);
  const shallow = indent.length + 2;
  const taken = [rest];
  let next = at + 1;
  while (next < lines.length) {
    const line = lines[next];
    const depth = line.search(/\S/);
    if (depth < 0) {
      const following = lines[next + 1];
      if (following === undefined || following.search(/\S/) < shallow) break;
    } else if (depth < shallow && (startsBlock(line) || lines[next - 1].trim() === '')) break;
    taken.push(line.slice(Math.min(inside, Math.max(depth, 0))));
    next += 1;
  }
  while (next < lines.length && lines[next].trim() === '' && ITEM.test(lines[next + 1] || '')) next += 1;
  return { lines: taken, next };
}

function isTable(lines, at) {
  const rule = lines[at + 1]?.trim() ?? '';
  return lines[at].includes('|') && rule.includes('|') && rule.includes('-') && TABLE_RULE.test(rule);
}

function readTable(lines, at) {
  let next = at + 2;
  while (next < lines.length && lines[next].includes('|')) next += 1;
  const rows = lines.slice(at + 2, next).map(cells);
  return { block: { type: 'table', head: cells(lines[at]), rows }, next };
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function readParagraph(lines, at, depth) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== '' && !interrupts(lines, next, depth)) next += 1;
  const text = lines.slice(at, next).map((line) => line.trimStart()).join('\n');
  return { block: { type: 'paragraph', text }, next };
}

function interrupts(lines, at, depth) {
  return (depth < MAX_DEPTH && startsBlock(lines[at])) || isTable(lines, at);
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}
