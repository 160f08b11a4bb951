import assert from 'node:assert/strict';
import test from 'node:test';

import { parseInline, safeHref } from '../../adapter/httpapi/page/static/inline.js';
import { parse } from '../../adapter/httpapi/page/static/markdown.js';

const types = (text) => parse(text).map((block) => block.type);
const plain = (nodes) => nodes.map((node) => (node.children ? { ...node, children: plain(node.children) } : node));

test('blocks of each kind are told apart', () => {
  const text = '# Title\n\nA line\nand another\n\n- one\n- two\n\n> quoted\n\n---\n\n```go\nx := 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |';
  assert.deepEqual(types(text), ['heading', 'paragraph', 'list', 'quote', 'rule', 'code', 'table']);
});

test('headings keep their level and lose closing marks', () => {
  const [heading] = parse('### Title ###');
  assert.deepEqual([heading.level, heading.text], [3, 'Title']);
  assert.equal(types('#hashtag')[0], 'paragraph');
  assert.equal(parse('# C#')[0].text, 'C#');
});

test('fenced code is verbatim, and an open fence takes the rest', () => {
  const [code] = parse('```js\nconst a = "**b**";\n\n<b>\n```');
  assert.deepEqual([code.language, code.text], ['js', 'const a = "**b**";\n\n<b>']);
  assert.equal(parse('```\nstill writing')[0].text, 'still writing');
  assert.equal(parse('````\n```\n````')[0].text, '```');
  assert.equal(parse('```js one-liner```')[0].type, 'paragraph');
});

test('lists nest, count from their first number and keep code inside an item', () => {
  const [list] = parse('3. three\n   - inner\n4. four\n\n   ```\n   code\n   ```');
  assert.deepEqual([list.ordered, list.start, list.items.length], [true, 3, 2]);
  assert.deepEqual(list.items[0].map((block) => block.type), ['paragraph', 'list']);
  assert.deepEqual(list.items[1].map((block) => block.type), ['paragraph', 'code']);
  assert.equal(list.items[1][1].text, 'code');
});

test('a loose list stays one list and text after it is a paragraph', () => {
  assert.deepEqual(types('- a\n\n- b\n\nafter'), ['list', 'paragraph']);
  assert.equal(parse('- a\n\n- b')[0].items.length, 2);
});

test('tables have a head and rows, and an escaped bar stays in its cell', () => {
  const [table] = parse('| a | b |\n| --- | :-: |\n| x \\| y | z |');
  assert.deepEqual([table.head, table.rows], [['a', 'b'], [['x | y', 'z']]]);
});

test('raw tells which blocks of a growing text are unchanged', () => {
  const before = parse('one\n\ntwo');
  const after = parse('one\n\ntwo more');
  assert.equal(before[0].raw, after[0].raw);
  assert.notEqual(before[1].raw, after[1].raw);
});

test('deep nesting ends as text instead of recursing without limit', () => {
  assert.equal(parse('>'.repeat(5000) + ' x').length, 1);
  assert.equal(parse('- '.repeat(5000)).length, 1);
});

test('inline marks', () => {
  assert.deepEqual(plain(parseInline('a **b** *c* `d*e*` ~~f~~')), [
    { type: 'text', text: 'a ' },
    { type: 'strong', children: [{ type: 'text', text: 'b' }] },
    { type: 'text', text: ' ' },
    { type: 'em', children: [{ type: 'text', text: 'c' }] },
    { type: 'text', text: ' ' },
    { type: 'code', text: 'd*e*' },
    { type: 'text', text: ' ' },
    { type: 'del', children: [{ type: 'text', text: 'f' }] },
  ]);
  assert.deepEqual(parseInline('***x***'), [{ type: 'strong', children: [{ type: 'em', children: [{ type: 'text', text: 'x' }] }] }]);
});

test('names with underscores, products with stars and escaped marks stay text', () => {
  for (const text of ['snake_case_name', '2 * 3 * 4', 'a__init__b.py', 'unclosed **bold']) {
    assert.deepEqual(parseInline(text), [{ type: 'text', text }]);
  }
  assert.equal(parseInline('\\*not\\*').map((node) => node.text).join(''), '*not*');
});

test('only http and https links become links', () => {
  const [link] = parseInline('[docs](https://example.com/a_(b))');
  assert.deepEqual([link.type, link.href], ['link', 'https://example.com/a_(b)']);
  for (const source of ['[x](javascript:alert(1))', '[x](data:text/html,hi)', '[x](//evil.example)', '[x](vbscript:x)', '[x](JaVaScRiPt:alert)']) {
    assert.ok(parseInline(source).every((node) => node.type === 'text'), source);
  }
  assert.equal(safeHref('java\nscript:alert(1)'), null);
});

test('bare addresses become links without the punctuation after them', () => {
  const nodes = parseInline('see https://example.com/x?y=1.');
  assert.deepEqual(nodes.map((node) => node.type), ['text', 'link', 'text']);
  assert.equal(nodes[1].href, 'https://example.com/x?y=1');
});

test('HTML is text', () => {
  const text = '<img src=x onerror=alert(1)>';
  assert.deepEqual(parse(text)[0].text, text);
  assert.deepEqual(parseInline(text), [{ type: 'text', text }]);
});

test('what is half a mark stays text, letter by letter', () => {
  const words = (nodes) => nodes.map((node) => node.text ?? words(node.children || [])).join('');
  for (const text of ['a [b](ftp://c) d', '[[x]]', '*a', 'a*', '****', '[](', '`a', '**a*', '[x](https://']) {
    assert.equal(words(parseInline(text)), text);
  }
});
