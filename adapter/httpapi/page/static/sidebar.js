// The list of chats: search, paging, and the marks of those that work.

import { byId, el } from './render.js';

const SEARCH_DELAY_MS = 250;
const REFRESH_DELAY_MS = 400;

/** Sidebar shows the rows of the HTTP API; actions are open(row), changed() and failed(error). */
export class Sidebar {
  constructor(api, actions) {
    this.api = api;
    this.actions = actions;
    this.rows = [];
    this.generation = 0;
    byId('search').addEventListener('input', () => this.refreshSoon(SEARCH_DELAY_MS));
    byId('more-sessions').addEventListener('click', () => this.load(this.next));
  }

  /** row returns the listed row of a chat, if there is one. */
  row(id) {
    return this.rows.find((row) => row.id === id);
  }

  clear() {
    this.generation += 1;
    this.rows = [];
    this.next = null;
    byId('search').value = '';
    byId('sessions').replaceChildren();
  }

  /** refreshSoon loads the first page again; several wishes at once become one request. */
  refreshSoon(delay = REFRESH_DELAY_MS) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), delay);
  }

  async load(before) {
    this.generation += 1;
    const generation = this.generation;
    try {
      const page = await this.api.sessions({ q: byId('search').value.trim(), before });
      if (generation !== this.generation) return;
      this.rows = before ? [...this.rows, ...page.sessions] : page.sessions;
      this.next = page.next;
      this.actions.changed();
    } catch (error) {
      if (generation === this.generation) this.actions.failed(error);
    }
  }

  /** draw shows the rows; current is the open chat, working tells which chats have a run. */
  draw(current, working) {
    const items = this.rows.map((row) => {
      const attributes = { type: 'button', 'data-testid': 'session-item', 'data-id': row.id, 'aria-current': row.id === current ? 'page' : null, onclick: () => this.actions.open(row) };
      const dot = working(row.id) && el('span', { class: 'dot busy', role: 'img', 'aria-label': 'working' });
      return el('li', {}, el('button', attributes, el('span', { class: 'session-title' }, titleOf(row)), dot || null, el('time', {}, ageOf(row.last_active))));
    });
    const empty = el('li', { class: 'empty' }, byId('search').value ? 'Nothing found' : 'No chats yet');
    byId('sessions').replaceChildren(...(items.length ? items : [empty]));
    byId('more-sessions').hidden = !this.next;
  }
}

/** titleOf names a chat: its title, else how it began. */
export function titleOf(row) {
  return row.title || row.preview || 'New chat';
}

function ageOf(seconds) {
  if (!seconds) return '';
  const date = new Date(seconds * 1000);
  const today = new Date().toDateString() === date.toDateString();
  return today ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }) : date.toLocaleDateString([], { day: 'numeric', month: 'short' });
}
