// Draws one chat: the transcript, what waits, and the controls that depend on its state.

import { byId, drawMarkdown, el } from './render.js';

const number = new Intl.NumberFormat();
const NEAR_END_PX = 80;

/** ChatView draws session states; actions are cancelQueued(id) and edit(text). */
export class ChatView {
  constructor(actions) {
    this.actions = actions;
    this.drawn = new Map();
    this.scroller = byId('transcript');
    this.follow = true;
    this.scroller.addEventListener('scroll', () => this.scrolled(), { passive: true });
    // A banner or the queue panel takes room from the transcript; its end must stay in sight.
    new ResizeObserver(() => this.follow && this.toEnd()).observe(this.scroller);
    byId('jump').addEventListener('click', () => this.toEnd());
  }

  /** reset forgets what is drawn, before another chat is shown. */
  reset() {
    this.drawn.clear();
    byId('items').replaceChildren();
    this.follow = true;
  }

  draw(state) {
    const height = this.scroller.scrollHeight;
    const first = byId('items').firstChild;
    this.drawItems(state.items);
    drawPending(state.pending);
    drawQueue(state.queue, this.actions);
    drawActivity(state);
    drawControls(state);
    byId('usage').textContent = usageText(state.usage);
    byId('earlier').hidden = !state.hasMore;
    byId('welcome').hidden = !state.loaded || state.items.length + state.pending.length > 0;
    const prepended = first?.isConnected && first !== byId('items').firstChild;
    if (this.follow) this.toEnd();
    else if (prepended) this.scroller.scrollTop += this.scroller.scrollHeight - height;
    this.scrolled();
  }

  drawItems(items) {
    const container = byId('items');
    const keys = new Set(items.map((item) => item.key));
    for (const [key, entry] of this.drawn) {
      if (keys.has(key)) continue;
      entry.node.remove();
      this.drawn.delete(key);
    }
    let cursor = container.firstChild;
    for (const item of items) {
      const node = this.drawItem(item);
      if (node === cursor) cursor = cursor.nextSibling;
      else container.insertBefore(node, cursor);
    }
  }

  drawItem(item) {
    const entry = this.drawn.get(item.key);
    if (entry?.item === item) return entry.node;
    const drawer = itemDrawers[item.kind];
    const node = entry?.node || drawer.make(item, this.actions);
    drawer.update(node, item);
    this.drawn.set(item.key, { item, node });
    return node;
  }

  scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    this.follow = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    byId('jump').hidden = this.follow;
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

/* Items: make() builds the element once, update() fills in what changes. */

const itemDrawers = {
  user: {
    make: (item) => el('article', { class: 'message user', 'data-testid': 'message', 'data-role': 'user', 'aria-label': 'You' }, el('div', { class: 'text' }, item.text)),
    update: () => {},
  },
  assistant: {
    make: () => el('article', { class: 'message assistant', 'data-testid': 'message', 'data-role': 'assistant', 'aria-label': 'Assistant' }, el('div', { class: 'markdown' })),
    update: (node, item) => {
      node.dataset.streaming = String(Boolean(item.streaming));
      drawMarkdown(node.firstChild, item.text);
    },
  },
  reasoning: {
    make: () => el('details', { class: 'reasoning', 'data-testid': 'reasoning' }, el('summary'), el('div', { class: 'text' })),
    update: (node, item) => {
      node.dataset.streaming = String(Boolean(item.streaming));
      node.firstChild.textContent = item.streaming ? 'Thinking…' : 'Thoughts';
      node.lastChild.textContent = item.text;
    },
  },
  tool: { make: makeTool, update: updateTool },
  error: {
    make: (item, actions) => {
      const edit = () => actions.edit(item.unsent);
      const again = item.unsent && el('button', { type: 'button', class: 'quiet', onclick: edit }, 'Edit the message again');
      const lead = item.unsent && el('strong', {}, `Not sent: ${item.unsent}`);
      return el('div', { class: 'message error', 'data-testid': 'error', role: 'alert' }, lead, el('div', { class: 'text' }, item.text), again);
    },
    update: () => {},
  },
  notice: {
    make: (item) => el('p', { class: 'notice', 'data-testid': 'notice' }, item.text),
    update: () => {},
  },
};

const stateNames = { running: 'running', done: 'done', error: 'failed', stopped: 'stopped' };

function makeTool() {
  const summary = el('summary', {}, el('span', { class: 'mark', 'aria-hidden': 'true' }), el('span', { class: 'name' }), el('span', { class: 'preview' }), el('span', { class: 'duration' }));
  return el('details', { class: 'tool', 'data-testid': 'tool-card' }, summary, el('div', { class: 'tool-body' }));
}

function updateTool(node, item) {
  const [, name, preview, duration] = node.firstChild.children;
  node.dataset.state = item.state;
  node.dataset.tool = item.name;
  node.setAttribute('aria-label', `Tool ${item.name}, ${stateNames[item.state]}`);
  name.textContent = item.name || 'tool';
  preview.textContent = item.preview;
  duration.textContent = durationText(item);
  const part = (label, text, kind) => text && [el('h3', {}, label), el('pre', { class: kind, tabindex: '0' }, text)];
  const parts = [part('Arguments', pretty(item.arguments), 'arguments'), part(item.state === 'error' ? 'Error' : 'Output', item.output, 'output')];
  node.lastChild.replaceChildren(...parts.flat().filter(Boolean));
  if (node.lastChild.childElementCount === 0) node.lastChild.append(el('p', {}, 'No details yet.'));
}

function durationText({ state, duration }) {
  if (typeof duration === 'number') return duration < 60 ? `${duration.toFixed(1)} s` : `${Math.floor(duration / 60)} min ${Math.round(duration % 60)} s`;
  return state === 'stopped' ? 'stopped' : '';
}

function pretty(json) {
  if (!json || json === '{}') return '';
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/* What waits. */

function drawPending(pending) {
  byId('pending').replaceChildren(
    ...pending.map((message) =>
      el('article', { class: 'message user waiting', 'data-testid': 'message', 'data-role': 'user', 'data-pending': 'true', 'aria-label': 'You, being sent' }, el('div', { class: 'text' }, message.text)),
    ),
  );
}

function drawQueue(queue, { cancelQueued }) {
  const panel = byId('queue');
  panel.hidden = queue.length === 0;
  const rows = queue.map(({ id, text }) =>
    el('li', { 'data-testid': 'queue-item', 'data-id': id }, el('span', {}, text), el('button', { type: 'button', class: 'quiet', 'data-testid': 'queue-cancel', 'aria-label': `Cancel: ${text.slice(0, 60)}`, onclick: () => cancelQueued(id) }, 'Cancel')),
  );
  panel.replaceChildren(el('h2', {}, queue.length === 1 ? '1 message waits' : `${queue.length} messages wait`), el('ol', {}, rows));
}

function drawActivity({ working, stopping, loaded, items, pending }) {
  const last = items.at(-1);
  const visible = last?.streaming || last?.state === 'running';
  byId('activity').hidden = loaded && !stopping && !(working && !visible) && !(pending.length && !working);
  byId('activity-text').textContent = !loaded ? 'Loading…' : stopping ? 'Stopping…' : working ? 'Working…' : 'Sending…';
}

function drawControls({ working, stopping, pending }) {
  const stop = byId('stop');
  stop.hidden = !working && pending.length === 0;
  stop.disabled = stopping;
}

function usageText(usage) {
  if (!usage) return '';
  const parts = [];
  if (usage.context > 0) parts.push(`Context ${number.format(usage.context)} tokens`);
  if (usage.input + usage.output > 0) parts.push(`${number.format(usage.input)} in, ${number.format(usage.output)} out`);
  return parts.join(' · ');
}
