// Draws a Markdown tree as DOM nodes. Text only ever becomes a text node.

import { parseInline } from './inline.js';
import { parse } from './markdown.js';

/** byId returns the element of the page with that id. */
export function byId(id) {
  return document.getElementById(id);
}

/** el makes an element with attributes and children; strings become text nodes, null is left out. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, '');
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

/** drawMarkdown fills a container and, when the text has only grown, redraws no more than the blocks that changed. */
export function drawMarkdown(container, source) {
  const blocks = parse(source);
  const drawn = container.drawnBlocks || [];
  blocks.forEach((block, i) => {
    if (drawn[i]?.type === block.type && drawn[i]?.raw === block.raw) return;
    const node = drawBlock(block);
    if (i < container.children.length) container.replaceChild(node, container.children[i]);
    else container.append(node);
  });
  while (container.children.length > blocks.length) container.lastChild.remove();
  container.drawnBlocks = blocks.map(({ type, raw }) => ({ type, raw }));
}

const blockDrawers = {
  heading: (block) => el(`h${Math.min(block.level + 2, 6)}`, {}, drawText(block.text)),
  paragraph: (block) => el('p', {}, drawText(block.text)),
  code: drawCode,
  quote: (block) => el('blockquote', {}, block.children.map(drawBlock)),
  rule: () => el('hr'),
  list: (block) => el(block.ordered ? 'ol' : 'ul', { start: block.start > 1 ? block.start : null }, block.items.map(drawItem)),
  table: drawTable,
};

function drawBlock(block) {
  return blockDrawers[block.type](block);
}

function drawItem(blocks) {
  const tight = blocks.length > 0 && blocks[0].type === 'paragraph';
  const first = tight ? drawText(blocks[0].text) : [];
  return el('li', {}, first, (tight ? blocks.slice(1) : blocks).map(drawBlock));
}

function drawTable({ head, rows }) {
  const line = (cells, name) => el('tr', {}, cells.map((cell) => el(name, {}, drawText(cell))));
  const table = el('table', {}, el('thead', {}, line(head, 'th')), el('tbody', {}, rows.map((row) => line(row, 'td'))));
  return el('div', { class: 'table-scroll', tabindex: '0' }, table);
}

function drawCode({ language, text }) {
  const copy = el('button', { type: 'button', class: 'copy', 'aria-label': 'Copy code' }, 'Copy');
  copy.addEventListener('click', async () => {
    copy.textContent = (await copyText(text)) ? 'Copied' : 'Not allowed';
    setTimeout(() => (copy.textContent = 'Copy'), 1500);
  });
  const bar = el('div', { class: 'code-bar' }, el('span', {}, language || 'text'), copy);
  return el('div', { class: 'code' }, bar, el('pre', { tabindex: '0' }, el('code', {}, text)));
}

const inlineDrawers = {
  text: (node) => node.text,
  code: (node) => el('code', {}, node.text),
  strong: (node) => el('strong', {}, drawInline(node.children)),
  em: (node) => el('em', {}, drawInline(node.children)),
  del: (node) => el('del', {}, drawInline(node.children)),
  break: () => el('br'),
  link: (node) => el('a', { href: node.href, target: '_blank', rel: 'noopener noreferrer' }, drawInline(node.children)),
};

function drawText(text) {
  return drawInline(parseInline(text));
}

function drawInline(nodes) {
  return nodes.map((node) => inlineDrawers[node.type](node));
}

/** copyText writes to the clipboard; pages without TLS have no clipboard object and use a selection instead. */
async function copyText(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const area = el('textarea', { class: 'offscreen', readonly: true }, text);
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}
